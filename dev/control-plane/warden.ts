import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'

/**
 * Reads `adopt GROUP` and `release GROUP`. When its input ends, it kills the groups that are left, removes the folders,
 * and kills every process whose environment names this warden. The last part needs /proc, and runs twice, since a
 * process may fork meanwhile.
 */
const script = `
trap '' HUP INT TERM
mark=$1; shift; groups=' '
while read -r verb group; do
  case $verb in
    adopt) groups="$groups$group " ;;
    release) case $groups in *" $group "*) groups="\${groups%% $group *} \${groups#* $group }" ;; esac ;;
  esac
done
for group in $groups; do kill -KILL -- "-$group" 2>/dev/null; done
for round in 1 2; do
  for file in $(grep -lzxF "KAS_WARDEN=$mark" /proc/[0-9]*/environ 2>/dev/null); do
    pid=\${file#/proc/}; kill -KILL "\${pid%/environ}" 2>/dev/null
  done
done
for folder in "$@"; do rm -rf "$folder"; done
`

export interface WardenOptions {
  /** folders that are removed at the end */
  folders?: readonly string[]
}

/**
 * A small shell that lives a moment longer than this process. However this process ends (a signal to it or to its
 * terminal, SIGKILL too), the warden cleans up. It ends the adopted process groups with their children, and removes the
 * folders. On Linux it finds processes that leave their group by `environment`.
 */
export class Warden {
  readonly #mark = randomUUID()
  readonly #folders: readonly string[]
  #shell: ChildProcess | undefined
  #ended: Promise<unknown> | undefined

  constructor(options: WardenOptions = {}) {
    this.#folders = options.folders ?? []
  }

  /** variables for each adopted process, inherited by its children */
  get environment(): Record<string, string> {
    return { KAS_WARDEN: this.#mark }
  }

  async start(): Promise<void> {
    const shell = spawn('/bin/sh', ['-c', script, 'warden', this.#mark, ...this.#folders], {
      detached: true, // a Ctrl-C in the terminal must not end it
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    this.#shell = shell
    this.#ended = once(shell, 'exit')
    shell.stdin?.on('error', () => undefined) // it was killed
    await once(shell, 'spawn')
    shell.unref() // it must not keep this process alive, for whose end it waits
    ;(shell.stdin as unknown as { unref(): void }).unref()
  }

  /** @param group - id of a process that was started detached, so that it leads a group */
  adopt(group: number): void {
    this.#shell?.stdin?.write(`adopt ${group}\n`)
  }

  /** Releases a group that has ended by itself: its number may soon be another's. */
  release(group: number): void {
    this.#shell?.stdin?.write(`release ${group}\n`)
  }

  /** Kills all that is left; resolves when it has ended. May be called twice. */
  async stop(): Promise<void> {
    this.#shell?.ref()
    this.#shell?.stdin?.end()
    await this.#ended
  }
}
