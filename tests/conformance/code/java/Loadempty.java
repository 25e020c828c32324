/** Is not a storlet. */
public class Loadempty {}
