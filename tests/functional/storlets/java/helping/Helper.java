package helping;

/** A dependency jar: code that the storlet calls. */
public class Helper {
    @Override
    public String toString() {
        return "helped";
    }
}
