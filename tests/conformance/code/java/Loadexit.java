/** Ends the process that loads it. */
public class Loadexit {
    static {
        System.err.print("last words");
        System.err.flush();
        Runtime.getRuntime().halt(3);
    }
}
