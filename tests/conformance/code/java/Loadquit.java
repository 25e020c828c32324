/** Ends the process that loads it, with a normal exit. */
public class Loadquit {
    static {
        System.exit(1);
    }
}
