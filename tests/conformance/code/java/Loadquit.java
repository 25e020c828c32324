/** Ends the process that loads it, politely. */
public class Loadquit {
    static {
        System.exit(1);
    }
}
