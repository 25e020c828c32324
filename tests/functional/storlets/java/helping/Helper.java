package helping;

/** What a dependency jar holds: code that the storlet calls. */
public class Helper {
    @Override
    public String toString() {
        return "helped";
    }
}
