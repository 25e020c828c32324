/** Hangs when it is loaded. */
public class Loadhang {
    static {
        try {
            Thread.sleep(300000);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
