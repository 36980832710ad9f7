import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.Serializable;
import java.io.StringReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogManager;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/**
 * A JVM with one SDK harness of Beam's for each slot that connects.
 *
 * <p>Java runs this file as it is. Standard input is a socket that listens. A slot sends the variables
 * of its harness, up to an empty line: a harness of its own has these in its environment. The
 * connection closes when the harness has ended. If the slot closes it, the harness ends. If a bundle
 * runs on for a while after either, the JVM ends, since Java cannot end a thread.
 *
 * <p>Two bytes follow the variables. The first one says that the harness has connected to the slot. The
 * second one says that it is to end. Then the last record of its log, under a name of its own, says that
 * all DoFns are torn down: the harness waits for up to a second after that.
 *
 * <p>A JVM that is started before there is a job has three arguments: a list of classes to load, a file
 * that is there until a job takes the JVM, and a file with variables. It rehearses first: it is a harness
 * with these variables, whose runner has bundles of its own. Beside the variables it puts a DoFn of
 * Beam's for these bundles. Then it removes the variables. When a job takes it, it loads no further
 * class, and begins no rehearsal.
 */
public final class SharedHarness {
  private static final String MAIN = "org.apache.beam.fn.harness.FnHarness";
  private static final String GROUP = "SPARKDRAIN_GROUP";
  private static final int CONNECTED = 'c';
  private static final long PATIENCE_MILLIS = Long.getLong("sparkdrain.patience", 3000);
  private static final String TORN_DOWN = "sparkdrain.torn-down";
  private static final String LOGGING = "org.apache.beam.fn.harness.logging.";
  private static final String LOG = LOGGING + "BeamFnLoggingClient";
  private static final String BUNDLES = "org.apache.beam.fn.harness.control.ProcessBundleHandler";
  /** What threads are in that a harness of Beam's leaves behind, one with 10 MB. */
  private static final Set<String> LEFT_BEHIND =
      Set.of(
          "org.apache.beam.fn.harness.status.MemoryMonitor.run",
          "org.apache.beam.fn.harness.control.FinalizeBundleHandler.cleanupThreadBody",
          // Of Beam 2.65.
          "org.apache.beam.fn.harness.control.FinalizeBundleHandler.lambda$new$0");
  private static final long LOOK_MILLIS = 5;
  private static final long PAUSE_MILLIS = 50;
  private static final String INITIALIZERS = "org.apache.beam.sdk.fn.JvmInitializers";
  private static final String INITIALIZER_FILE =
      "META-INF/services/org.apache.beam.sdk.harness.JvmInitializer";
  /** Complains of channels, which a harness that ends leaves open. */
  private static final String CHANNELS = ".io.grpc.internal.ManagedChannelOrphanWrapper";
  private static final int ALL = 1 << 20;

  private static final String SDK = "org.apache.beam.sdk.";
  private static final String METRICS = SDK + "metrics.";
  /** The file with the DoFn of a rehearsal. */
  private static final String DO_FN = "do-fn";
  /** What the rehearsal's stage calls the DoFn's output. */
  private static final String OUT = "out";

  private static Logs logs;
  private static Loader loader;

  /** What the process has counted for itself. */
  private static Object ofProcess;

  /** No other harness starts before the first one has connected: it runs the initializers. */
  private static final Semaphore starts = new Semaphore(1, true);

  private static final AtomicBoolean anyConnected = new AtomicBoolean();

  private SharedHarness() {}

  public static void main(String[] arguments) throws Exception {
    // The logs are found by the loader of this class only.
    Thread.currentThread().setContextClassLoader(SharedHarness.class.getClassLoader());
    System.setProperty("java.util.logging.manager", Logs.class.getName());
    logs = (Logs) LogManager.getLogManager();
    logs.begin();
    loader = new Loader(ClassLoader.getSystemClassLoader());
    Thread.currentThread().setContextClassLoader(loader);
    if (arguments.length > 0) {
      prepare(Path.of(arguments[0]), Path.of(arguments[1]), Path.of(arguments[2]));
    }
    ServerSocketChannel slots = (ServerSocketChannel) System.inheritedChannel();
    System.setIn(InputStream.nullInputStream());
    while (true) {
      SocketChannel slot = slots.accept();
      daemon(null, () -> serve(slot), "sparkdrain-slot");
    }
  }

  /** Has a harness run for a slot until one of them ends. */
  private static void serve(SocketChannel slot) {
    Thread harness = null;
    ThreadGroup group = null;
    AtomicBoolean isFirst = new AtomicBoolean();
    try {
      InputStream said = Channels.newInputStream(slot);
      Map<String, String> variables = read(said);
      ThreadGroup own = group = new ThreadGroup(variables.get(GROUP));
      harness = daemon(own, () -> runFor(slot, variables, isFirst), "sparkdrain-harness");
      Thread shown = harness;
      for (int next = said.read(); next >= 0; next = said.read()) {
        if (next != CONNECTED) {
          daemon(own, () -> tellTornDown(shown), "sparkdrain-torn-down");
        } else {
          countTogether();
          if (isFirst.compareAndSet(true, false)) {
            anyConnected.set(true);
            starts.release(ALL);
          }
        }
      }
    } catch (IOException error) {
      // The slot is gone.
    }
    if (harness != null && isStuck(harness, group)) {
      System.err.println("A bundle runs on after its slot or its harness is gone. It ends with the JVM.");
      Runtime.getRuntime().halt(1);
    }
    close(slot);
  }

  private static void runFor(
      SocketChannel slot, Map<String, String> variables, AtomicBoolean isFirst) {
    starts.acquireUninterruptibly();
    isFirst.set(!anyConnected.get());
    try {
      if (slot.isOpen()) {
        run(variables);
      }
    } catch (InvocationTargetException error) {
      loader.listAgain(error.getCause().getStackTrace());
      error.getCause().printStackTrace();
    } catch (ReflectiveOperationException | LinkageError error) {
      error.printStackTrace();
    } finally {
      if (isFirst.compareAndSet(true, false)) {
        starts.release();
      }
      endInput(slot);
    }
  }

  private static void run(Map<String, String> variables) throws ReflectiveOperationException {
    Function<String, String> variable = variables::get;
    try {
      Class.forName(MAIN, true, loader).getMethod("main", Function.class).invoke(null, variable);
    } finally {
      endThreads(Thread.currentThread().getThreadGroup());
    }
  }

  /**
   * Has all harnesses count for the process in one place. Each one that starts has put a new place there,
   * and what was counted in it meanwhile is added.
   */
  private static synchronized void countTogether() {
    try {
      Class<?> environment = Class.forName(METRICS + "MetricsEnvironment", true, loader);
      Class<?> container = Class.forName(METRICS + "MetricsContainer", true, loader);
      if (ofProcess == null) {
        ofProcess = environment.getMethod("getProcessWideContainer").invoke(null);
        return;
      }
      Object another = environment.getMethod("setProcessWideContainer", container).invoke(null, ofProcess);
      if (another != ofProcess) {
        Class<?> type = ofProcess.getClass();
        type.getMethod("update", type).invoke(ofProcess, another);
      }
    } catch (ReflectiveOperationException | LinkageError error) {
      // This version of the SDK counts in another way.
    }
  }

  /** Ends threads that end with the JVM else. Those of user code may be of use to other slots. */
  private static void endThreads(ThreadGroup group) {
    for (Map.Entry<Thread, StackTraceElement[]> each : Thread.getAllStackTraces().entrySet()) {
      for (StackTraceElement frame : each.getValue()) {
        String call = frame.getClassName() + "." + frame.getMethodName();
        if (LEFT_BEHIND.contains(call) && each.getKey().getThreadGroup() == group) {
          each.getKey().interrupt();
        }
      }
    }
  }

  private static Map<String, String> read(InputStream said) throws IOException {
    ByteArrayOutputStream text = new ByteArrayOutputStream();
    for (int last = 0, next = said.read(); next != '\n' || last != '\n'; next = said.read()) {
      if (next < 0) {
        throw new EOFException();
      }
      text.write(next);
      last = next;
    }
    return read(new StringReader(text.toString(StandardCharsets.UTF_8)));
  }

  private static Map<String, String> read(java.io.Reader told) throws IOException {
    Map<String, String> variables = new HashMap<>();
    BufferedReader lines = new BufferedReader(told);
    for (String line = lines.readLine(); line != null && !line.isEmpty(); line = lines.readLine()) {
      int end = line.indexOf('=');
      variables.put(line.substring(0, end), line.substring(end + 1));
    }
    return variables;
  }

  private static Thread daemon(ThreadGroup group, Runnable work, String name) {
    Thread thread = new Thread(group, work, name);
    thread.setDaemon(true);
    thread.setContextClassLoader(loader);
    thread.start();
    return thread;
  }

  /** Has the thread that reads what a slot says go on. */
  private static void endInput(SocketChannel slot) {
    try {
      slot.shutdownInput();
    } catch (IOException error) {
      // The slot is gone.
    }
  }

  private static void close(SocketChannel slot) {
    try {
      slot.close();
    } catch (IOException error) {
      // The slot is gone.
    }
  }

  /** Waits a while for the end of a harness and of its bundles; whether a bundle runs on. */
  private static boolean isStuck(Thread harness, ThreadGroup group) {
    long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MILLIS);
    while (harness.isAlive() || hasBundle(group)) {
      if (System.nanoTime() > until) {
        // A teardown may take its time: it ends with the JVM, if not before.
        return hasBundle(group);
      }
      try {
        Thread.sleep(PAUSE_MILLIS);
      } catch (InterruptedException error) {
        // It is looked at now.
      }
    }
    return false;
  }

  private static boolean hasBundle(ThreadGroup group) {
    for (Map.Entry<Thread, StackTraceElement[]> each : Thread.getAllStackTraces().entrySet()) {
      ThreadGroup its = each.getKey().getThreadGroup();
      if (its != null && group.parentOf(its) && isIn(each.getValue(), BUNDLES, "processBundle")) {
        return true;
      }
    }
    return false;
  }

  private static void tellTornDown(Thread harness) {
    // It closes its log last.
    while (!isIn(harness.getStackTrace(), LOG, "close")) {
      if (!harness.isAlive()) {
        return;
      }
      try {
        Thread.sleep(LOOK_MILLIS);
      } catch (InterruptedException error) {
        return;
      }
    }
    LogRecord tornDown = new LogRecord(Level.SEVERE, "torn down");
    tornDown.setLoggerName(TORN_DOWN);
    logs.publishToOwn(tornDown);
  }

  private static boolean isIn(StackTraceElement[] stack, String type, String method) {
    for (StackTraceElement frame : stack) {
      if (frame.getClassName().equals(type) && frame.getMethodName().equals(method)) {
        return true;
      }
    }
    return false;
  }

  private static void prepare(Path classes, Path waiting, Path told) throws IOException {
    for (String name : Files.readAllLines(classes)) {
      if (Files.exists(waiting)) {
        load(name);
      }
    }
    if (Files.exists(waiting)) {
      rehearse(told);
    }
    Files.delete(told);
  }

  /** Is a harness for once. Nothing of it is left but what Java has learned. */
  private static void rehearse(Path told) {
    PrintStream out = System.out;
    PrintStream err = System.err;
    PrintStream nowhere = new PrintStream(OutputStream.nullOutputStream());
    System.setOut(nowhere);
    System.setErr(nowhere);
    loader.hidesAll = true;
    logs.isQuiet = true;
    try {
      Files.write(told.resolveSibling(DO_FN), doFn());
    } catch (Exception | LinkageError error) {
      // The bundles do without: this version of the SDK has another one.
    }
    try (BufferedReader reader = Files.newBufferedReader(told)) {
      run(read(reader));
      Field ran = Class.forName(INITIALIZERS, true, loader).getDeclaredField("initialized");
      ran.setAccessible(true);
      ((AtomicBoolean) ran.get(null)).set(false);
    } catch (Exception | LinkageError error) {
      // It will take longer, and say what is wrong.
    } finally {
      loader.hidesAll = false;
      logs.isQuiet = false;
      System.setOut(out);
      System.setErr(err);
    }
  }

  /** A DoFn of Beam's own that gives all elements as they came, as a program stages it. */
  private static byte[] doFn() throws ReflectiveOperationException {
    Class<?> function = beam("transforms.SerializableFunction");
    Class<?> functions = beam("transforms.SerializableFunctions");
    Object always = functions.getMethod("constant", Object.class).invoke(null, true);
    Class<?> filter = beam("transforms.Filter");
    Constructor<?> ofAll = beam("transforms.Filter$1").getDeclaredConstructor(filter);
    ofAll.setAccessible(true);
    Object all = ofAll.newInstance(filter.getMethod("by", function).invoke(null, always));
    Class<?> tag = beam("values.TupleTag");
    Class<?> schemas = beam("transforms.DoFnSchemaInformation");
    Object out = tag.getConstructor(String.class).newInstance(OUT);
    Object none = schemas.getMethod("create").invoke(null);
    Object staged =
        beam("util.DoFnWithExecutionInformation")
            .getMethod("of", beam("transforms.DoFn"), tag, Map.class, schemas)
            .invoke(null, all, out, Map.of(), none);
    Class<?> written = beam("util.SerializableUtils");
    return (byte[])
        written.getMethod("serializeToByteArray", Serializable.class).invoke(null, staged);
  }

  private static Class<?> beam(String name) throws ClassNotFoundException {
    return Class.forName(SDK + name, true, loader);
  }

  private static void load(String name) {
    try {
      Class.forName(name, true, loader);
    } catch (ClassNotFoundException | LinkageError error) {
      // The harness will say so, if it needs the class.
    }
  }

  /**
   * Lists the JvmInitializers once for each of their two methods, so that each runs once in the JVM.
   * It lists none in a rehearsal.
   */
  private static final class Loader extends ClassLoader {
    static {
      registerAsParallelCapable();
    }

    private final Set<String> listed = ConcurrentHashMap.newKeySet();
    private volatile boolean hidesAll;

    Loader(ClassLoader parent) {
      super(parent);
    }

    @Override
    public Enumeration<URL> getResources(String name) throws IOException {
      boolean isHidden = name.equals(INITIALIZER_FILE) && (hidesAll || !listed.add(asked()));
      return isHidden ? Collections.emptyEnumeration() : super.getResources(name);
    }

    /** Has initializers that have failed run again, for the next harness. */
    private void listAgain(StackTraceElement[] failure) {
      for (StackTraceElement frame : failure) {
        if (frame.getClassName().equals(INITIALIZERS)) {
          listed.remove(frame.getMethodName());
        }
      }
    }

    private static String asked() {
      String outermost = "";
      for (StackTraceElement frame : Thread.currentThread().getStackTrace()) {
        if (frame.getClassName().equals(INITIALIZERS)) {
          outermost = frame.getMethodName();
        }
      }
      return outermost;
    }
  }

  /**
   * Gives each log record to the harness that the thread belongs to.
   *
   * <p>A harness takes the root's handlers away when it starts, adds its own, and reads the
   * configuration again when it ends. All that is done to a root of its own here.
   */
  public static final class Logs extends LogManager {
    private final Map<ThreadGroup, Handler> handlers = new ConcurrentHashMap<>();
    // The loggers themselves, since LogManager forgets loggers that nobody has.
    private final Map<Logger, Level> levels = new ConcurrentHashMap<>();
    private Logger root;
    private Handler[] without;
    private volatile Logger shown;
    private volatile boolean isQuiet;

    private void begin() {
      root = super.getLogger("");
      without = root.getHandlers();
      for (Handler each : without) {
        root.removeHandler(each);
      }
      root.addHandler(new Router());
      shown = new Root();
    }

    @Override
    public Logger getLogger(String name) {
      return shown != null && name.isEmpty() ? shown : super.getLogger(name);
    }

    @Override
    public void reset() {
      if (shown == null) {
        super.reset();
      }
    }

    @Override
    public void readConfiguration() throws IOException {
      if (shown == null) {
        super.readConfiguration();
      }
    }

    private synchronized void add(Handler handler) {
      handlers.put(Thread.currentThread().getThreadGroup(), handler);
      for (String name : Collections.list(getLoggerNames())) {
        Logger each = super.getLogger(name);
        if (each != null && each.getLevel() != null) {
          levels.put(each, each.getLevel());
        }
      }
    }

    /** All harnesses have the same levels, and one that ends takes them away. */
    private synchronized void remove(Handler handler) {
      handlers.values().remove(handler);
      levels.forEach(Logger::setLevel);
    }

    /** Gives a record to the harness of this thread, and to no other one. */
    private void publishToOwn(LogRecord record) {
      Handler own = handlers.get(Thread.currentThread().getThreadGroup());
      if (own != null) {
        own.publish(record);
      }
    }

    private Handler of(ThreadGroup group) {
      for (ThreadGroup each = group; each != null; each = each.getParent()) {
        Handler handler = handlers.get(each);
        if (handler != null) {
          return handler;
        }
      }
      for (Handler any : handlers.values()) {
        return any;
      }
      return null;
    }

    private final class Router extends Handler {
      @Override
      public void publish(LogRecord record) {
        String logger = record.getLoggerName();
        if (logger != null && logger.endsWith(CHANNELS)) {
          return;
        }
        Handler handler = of(Thread.currentThread().getThreadGroup());
        if (handler != null) {
          handler.publish(record);
        } else if (!isQuiet) {
          for (Handler each : without) {
            each.publish(record);
          }
        }
      }

      @Override
      public void flush() {}

      @Override
      public void close() {}
    }

    /** The root logger as a harness sees it. */
    private final class Root extends Logger {
      Root() {
        super("", null);
      }

      @Override
      public void addHandler(Handler handler) {
        if (handler.getClass().getName().startsWith(LOGGING)) {
          add(handler);
        } else {
          root.addHandler(handler);
        }
      }

      @Override
      public void removeHandler(Handler handler) {
        if (handler.getClass().getName().startsWith(LOGGING)) {
          remove(handler);
        } else {
          root.removeHandler(handler);
        }
      }

      @Override
      public Handler[] getHandlers() {
        return new Handler[0];
      }

      @Override
      public void log(LogRecord record) {
        root.log(record);
      }

      @Override
      public boolean isLoggable(Level level) {
        return root.isLoggable(level);
      }

      @Override
      public Level getLevel() {
        return root.getLevel();
      }

      @Override
      public void setLevel(Level level) {
        if (level != null) {
          root.setLevel(level);
        }
      }
    }
  }
}
