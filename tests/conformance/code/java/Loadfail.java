/** Cannot be loaded. */
public class Loadfail {
    static {
        boolean always = true;
        if (always) {
            throw new IllegalStateException("no such luck");
        }
    }
}
