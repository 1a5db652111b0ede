package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe" //nolint:depguard // two system calls have no function in package syscall
)

// The names under which a program runs itself: as the supervisor of a command, and, started by
// the supervisor, to set the limits before it becomes the shell. A program cannot do so
// between fork and exec, because the Go runtime needs several threads.
const (
	supervisorName = "treadle: supervise command"
	launcherName   = "treadle: launch command"
)

//nolint:gochecknoinits // the program must do so before its main function
func init() {
	if len(os.Args) == 0 {
		return
	}
	switch os.Args[0] {
	case supervisorName:
		supervise()
	case launcherName:
		launch()
	}
}

const (
	scanInterval      = 50 * time.Millisecond
	innerDir          = "/workspace"
	prSetSubreaper    = 36
	prSetNoNewPrivs   = 38
	prAmbient         = 47
	prAmbientClearAll = 4
	rlimitProcesses   = 6
)

// supervise runs a command and ends everything that it has started. It ends, with the
// command, when the other end of its control pipe is closed.
func supervise() {
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	control, report := os.NewFile(3, "control"), os.NewFile(4, "report")
	var s supervisor
	finish := func(o outcome) {
		s.once.Do(func() {
			if !s.Confine {
				s.endDescendants()
			}
			_ = json.NewEncoder(report).Encode(o) // the other process may be gone
			// Unlike os.Exit, this ends at once under the race detector too.
			_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
		})
		select {} // another goroutine finishes
	}
	line := json.NewDecoder(control)
	if err := line.Decode(&s.job); err != nil {
		finish(outcome{Error: "read job: " + err.Error()})
	}
	pid, err := s.start()
	if err != nil {
		finish(outcome{Error: err.Error()})
	}
	go func() {
		_, _ = io.Copy(io.Discard, control)
		finish(outcome{Result: Result{Code: -1}})
	}()
	go func() {
		for range time.Tick(scanInterval) {
			if limit := s.exceeded(); limit != "" {
				finish(outcome{Result: Result{-1, limit}})
			}
		}
	}()
	for { // also reaps orphans
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case got == pid:
			finish(outcome{Result: resultOf(status)})
		case err != nil && !errors.Is(err, syscall.EINTR):
			finish(outcome{Error: "wait: " + err.Error()})
		}
	}
}

type supervisor struct {
	job
	once sync.Once
}

// start starts the shell.
func (s *supervisor) start() (int, error) {
	dir := s.Dir
	if s.Confine {
		if err := s.enclose(); err != nil {
			return 0, err
		}
		dir = innerDir
	} else if _, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetSubreaper, 1, 0, 0, 0, 0); e != 0 {
		return 0, fmt.Errorf("adopt orphans: %w", e)
	}
	limits, err := json.Marshal(s.job.rlimits())
	if err != nil {
		return 0, err
	}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{launcherName, string(limits), s.Script},
		&syscall.ProcAttr{Dir: dir, Env: s.Env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		return 0, fmt.Errorf("start shell: %w", err)
	}
	return pid, nil
}

// rlimits returns the limits that the kernel applies. It applies the number of processes to all
// processes of a user, so the limit only makes sense in a user namespace, and not to root, so
// the supervisor counts too.
func (j *job) rlimits() map[int]uint64 {
	out := map[int]uint64{syscall.RLIMIT_CORE: 0}
	if j.Limits.CPU > 0 {
		out[syscall.RLIMIT_CPU] = uint64(max(j.Limits.CPU/time.Second, 1))
	}
	if j.Limits.Memory > 0 {
		out[syscall.RLIMIT_DATA] = uint64(j.Limits.Memory)
	}
	if j.Limits.FileSize > 0 {
		out[syscall.RLIMIT_FSIZE] = uint64(j.Limits.FileSize)
	}
	if j.Confine && j.Limits.Processes > 0 {
		out[rlimitProcesses] = uint64(max(8*j.Limits.Processes, 1024)) // it counts threads
	}
	return out
}

// launch sets the limits and becomes the shell.
func launch() {
	runtime.LockOSThread()
	var limits map[int]uint64
	err := json.Unmarshal([]byte(os.Args[1]), &limits)
	for what, n := range limits {
		if what != syscall.RLIMIT_DATA {
			err = errors.Join(err, syscall.Setrlimit(what, &syscall.Rlimit{Cur: n, Max: n}))
		}
	}
	for _, call := range [][2]uintptr{{prSetNoNewPrivs, 1}, {prAmbient, prAmbientClearAll}} {
		if _, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, call[0], call[1], 0, 0, 0, 0); e != 0 {
			err = errors.Join(err, fmt.Errorf("drop privileges: %w", e))
		}
	}
	if n, ok := limits[syscall.RLIMIT_DATA]; ok && err == nil { // last, because this process may exceed it
		err = syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: n, Max: n})
	}
	if err == nil {
		err = syscall.Exec("/bin/sh", []string{"sh", "-c", os.Args[2]}, os.Environ())
	}
	fmt.Fprintln(os.Stderr, "sandbox: start shell:", err)
	os.Exit(126) //nolint:forbidigo // the process only becomes a shell
}

// process is a process as /proc describes it.
type process struct {
	pid, parent int
	pages       int64
}

// processes returns the living processes that this process can see.
func processes() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }() // only read
	names, _ := dir.Readdirnames(-1)
	var out []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		raw, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it has ended
		}
		text := string(raw)
		fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		if len(fields) < 22 || fields[0] == "Z" {
			continue
		}
		p := process{pid: pid}
		p.parent, _ = strconv.Atoi(fields[1])
		p.pages, _ = strconv.ParseInt(fields[21], 10, 64)
		out = append(out, p)
	}
	return out
}

// descendants returns the processes that the command consists of.
func (s *supervisor) descendants() []process {
	all := processes()
	own := map[int]bool{os.Getpid(): true}
	for more := true; more; {
		more = false
		for _, p := range all {
			if !own[p.pid] && (s.Confine || own[p.parent]) {
				own[p.pid], more = true, true
			}
		}
	}
	return slices.DeleteFunc(all, func(p process) bool { return !own[p.pid] || p.pid == os.Getpid() })
}

// exceeded returns the limit that the processes exceed together, or "".
func (s *supervisor) exceeded() Limit {
	all := s.descendants()
	var used int64
	for _, p := range all {
		used += p.pages * int64(os.Getpagesize())
	}
	switch {
	case s.Limits.Processes > 0 && len(all) > s.Limits.Processes:
		return Processes
	case s.Limits.Memory <= 0:
	case used > s.Limits.Memory, s.Confine && used+filesInMemory(all) > s.Limits.Memory:
		return Memory
	}
	return ""
}

// filesInMemory returns the size of what the processes keep in memory without having it
// mapped: temporary files, anonymous files, and segments of shared memory.
func filesInMemory(all []process) int64 {
	var size int64
	for _, dir := range tempDirs {
		var is syscall.Statfs_t
		if syscall.Statfs(dir, &is) == nil {
			size += int64(is.Blocks-is.Bfree) * is.Bsize //nolint:gosec,unconvert // it is small; a different type elsewhere
		}
	}
	seen := map[uint64]bool{}
	for _, p := range all {
		fds := fmt.Sprintf("/proc/%d/fd", p.pid)
		dir, err := os.Open(fds)
		if err != nil {
			continue // it has ended
		}
		names, _ := dir.Readdirnames(-1)
		_ = dir.Close() // only read
		for _, name := range names {
			if to, err := os.Readlink(fds + "/" + name); err != nil || !strings.HasPrefix(to, "/memfd:") {
				continue
			}
			var is syscall.Stat_t
			if syscall.Stat(fds+"/"+name, &is) == nil && !seen[is.Ino] {
				seen[is.Ino] = true
				size += is.Blocks * 512
			}
		}
	}
	raw, _ := os.ReadFile("/proc/sysvipc/shm") // the kernel may lack it
	for _, line := range strings.Split(string(raw), "\n") {
		if fields := strings.Fields(line); len(fields) > 14 {
			resident, _ := strconv.ParseInt(fields[14], 10, 64) // not the heading
			size += resident
		}
	}
	return size
}

// endDescendants kills the remaining processes of the command. Orphans become children of this
// process, so none escapes.
func (s *supervisor) endDescendants() {
	for range 1000 {
		all := s.descendants()
		if len(all) == 0 {
			return
		}
		for _, p := range all {
			_ = syscall.Kill(p.pid, syscall.SIGSTOP) // so that it starts no others
		}
		for _, p := range all {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
}

// Parts of the file system that commands can read. Programs need the files of /etc; the other
// files in it may contain secrets.
var (
	shared = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"}
	etc    = []string{"alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version", "fonts", "gai.conf", "group", "host.conf", "hosts",
		"inputrc", "java-*", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf", "localtime", "magic", "magic.mime", "mime.types",
		"networks", "nsswitch.conf", "os-release", "passwd", "perl", "pki/ca-trust", "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf", "protocols",
		"python3*", "resolv.conf", "rpc", "services", "shells", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone"}
	devices  = []string{"null", "zero", "full", "random", "urandom"}
	tempDirs = []string{"/tmp", "/dev/shm"}
)

const (
	newRoot = "/tmp" // any directory that exists
	attrRO  = 1
	attrSet = 2 | 4 // no set-user-ID programs, no devices
)

// enclose replaces the file system with the parts that a command may see.
func (s *supervisor) enclose() error {
	e := &enclosure{}
	e.mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	e.do("enter directory", func() error { return os.Chdir(s.Dir) }) // the new root may hide it
	var shares []*os.File
	for _, d := range s.Share {
		e.do("open "+d, func() error {
			f, err := os.Open(d)
			shares = append(shares, f)
			return err
		})
	}
	resolver, _ := filepath.EvalSymlinks("/etc/resolv.conf")
	most := s.Limits.FileSize
	if most < 0 {
		most = max(s.Limits.Memory, 0) // 0 is no limit, and hides the size of the files
	}
	size := "size=" + strconv.FormatInt(most, 10)
	e.tmpfs("", "mode=755,size=1m")
	for _, d := range shared {
		info, err := os.Lstat(d)
		switch {
		case err != nil:
		case info.Mode()&os.ModeSymlink != 0:
			e.link(d)
		case info.IsDir():
			e.bind(d, d, attrRO|attrSet)
		}
	}
	e.tmpfs("/etc", "mode=755,size=1m")
	for _, pattern := range etc {
		found, _ := filepath.Glob("/etc/" + pattern) // the patterns are valid
		for _, p := range found {
			e.file(p)
		}
	}
	e.tmpfs("/tmp", "mode=1777,"+size) // before what may be in it
	for i, d := range s.Share {
		if e.err == nil {
			e.bind("/proc/self/fd/"+strconv.Itoa(int(shares[i].Fd())), d, attrRO|attrSet)
		}
	}
	e.tmpfs("/dev", "mode=755,size=1m")
	for _, d := range devices {
		e.empty("/dev/" + d)
		e.mount("/dev/"+d, newRoot+"/dev/"+d, "", syscall.MS_BIND, "")
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		e.do("link "+name, func() error { return os.Symlink(to, newRoot+"/dev/"+name) })
	}
	e.tmpfs("/dev/shm", "mode=1777,"+size)
	e.do("protect /etc", func() error { return setAttributes(newRoot+"/etc", attrRO|attrSet, 0) })
	if s.Network && strings.HasPrefix(resolver, "/run/") {
		e.empty(resolver)
		e.mount(resolver, newRoot+resolver, "", syscall.MS_BIND, "")
	}
	e.dir("/proc")
	e.mount("proc", newRoot+"/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "")
	e.do("forbid namespaces", func() error { // in which commands could mount file systems that no limit applies to
		err := os.WriteFile(newRoot+"/proc/sys/user/max_user_namespaces", []byte("0"), 0)
		if errors.Is(err, os.ErrNotExist) {
			return nil // the kernel has none
		}
		return err
	})
	e.bind(".", innerDir, attrSet)
	e.do("enter new root", func() error { return os.Chdir(newRoot) })
	e.do("change root", func() error { return syscall.PivotRoot(".", ".") })
	e.do("leave old root", func() error { return syscall.Unmount(".", syscall.MNT_DETACH) })
	e.do("enter root", func() error { return os.Chdir("/") })
	e.do("protect root", func() error { return setAttributes("/", attrRO|attrSet, 0) })
	if !s.Network {
		e.do("enable loopback", loopbackUp)
	}
	for _, f := range shares {
		_ = f.Close() // only opened for its path
	}
	return e.err
}

// enclosure does nothing after the first error.
type enclosure struct{ err error }

func (e *enclosure) do(what string, f func() error) {
	if e.err != nil {
		return
	}
	if err := f(); err != nil {
		e.err = fmt.Errorf("%s: %w", what, err)
	}
}

func (e *enclosure) mount(from, at, kind string, flags uintptr, options string) {
	e.do("mount "+at, func() error { return syscall.Mount(from, at, kind, flags, options) })
}

// dir makes a directory in the new root. It fails for the parts that are read-only.
func (e *enclosure) dir(p string) {
	e.do("make directory "+p, func() error { return os.MkdirAll(newRoot+p, 0o755) })
}

// link makes a symbolic link like the one at p.
func (e *enclosure) link(p string) {
	e.dir(filepath.Dir(p))
	e.do("link "+p, func() error {
		to, err := os.Readlink(p)
		if err != nil {
			return err
		}
		return os.Symlink(to, newRoot+p)
	})
}

// file shows a file, a directory, or a symbolic link at the same path.
func (e *enclosure) file(p string) {
	info, err := os.Lstat(p)
	switch {
	case err != nil:
	case info.Mode()&os.ModeSymlink != 0:
		e.link(p)
	case info.IsDir():
		e.bind(p, p, attrRO|attrSet)
	case info.Mode().IsRegular():
		e.empty(p)
		e.mount(p, newRoot+p, "", syscall.MS_BIND, "")
		e.do("protect "+p, func() error { return setAttributes(newRoot+p, attrRO|attrSet, 0) })
	}
}

// empty makes an empty file.
func (e *enclosure) empty(p string) {
	e.dir(filepath.Dir(p))
	e.do("make file "+p, func() error { return os.WriteFile(newRoot+p, nil, 0o600) })
}

func (e *enclosure) tmpfs(p, options string) {
	e.dir(p)
	e.mount("tmpfs", newRoot+p, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, options)
}

func (e *enclosure) bind(from, to string, attributes uint64) {
	e.dir(to)
	e.mount(from, newRoot+to, "", syscall.MS_BIND|syscall.MS_REC, "")
	e.do("protect "+to, func() error { return setAttributes(newRoot+to, attributes, 0x8000) }) // AT_RECURSIVE
}

// setAttributes calls mount_setattr, which has the same number on all architectures.
func setAttributes(path string, set uint64, flags uintptr) error {
	at, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	attr := [4]uint64{set}
	const cwd = -100
	if _, _, e := syscall.Syscall6(442, ^uintptr(-cwd-1), uintptr(unsafe.Pointer(at)), flags, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0); e != 0 {
		return e
	}
	return nil
}

// loopbackUp enables the loopback interface of a network namespace, which is its only one.
func loopbackUp() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(fd) }()
	var request [40]byte // struct ifreq
	copy(request[:], "lo")
	binary.NativeEndian.PutUint16(request[16:], syscall.IFF_UP)
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); e != 0 {
		return e
	}
	return nil
}
