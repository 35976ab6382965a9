import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'

/**
 * Reads `adopt GROUP` and `release GROUP`; when its input ends it kills the groups that are left, every process
 * whose environment names this warden (where there is a /proc; twice, since one may fork meanwhile), and the folders.
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
  /** removed at the end */
  folders?: readonly string[]
}

/**
 * A small shell that outlives this process by a moment: however this process ends (a signal to it or to its
 * terminal, SIGKILL too), the process groups that the warden adopted, what they started, and the folders go with it.
 * Processes that leave their group are found by `environment`, on Linux.
 */
export class Warden {
  readonly #mark = randomUUID()
  readonly #folders: readonly string[]
  #shell: ChildProcess | undefined
  #ended: Promise<unknown> | undefined

  constructor(options: WardenOptions = {}) {
    this.#folders = options.folders ?? []
  }

  /** to be set for each process that is adopted; inherited by what it starts */
  get environment(): Record<string, string> {
    return { KAS_WARDEN: this.#mark }
  }

  async start(): Promise<void> {
    const shell = spawn('/bin/sh', ['-c', script, 'warden', this.#mark, ...this.#folders], {
      detached: true, // a Ctrl-C in the terminal is not for it
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    this.#shell = shell
    this.#ended = once(shell, 'exit')
    shell.stdin?.on('error', () => undefined) // killed by somebody: nothing to tell it any more
    await once(shell, 'spawn')
    shell.unref() // it must not keep this process alive; its end is what it waits for
    ;(shell.stdin as unknown as { unref(): void }).unref()
  }

  /** @param group - id of a process that was started detached, so that it leads a group */
  adopt(group: number): void {
    this.#shell?.stdin?.write(`adopt ${group}\n`)
  }

  /** The group has ended by itself: its number may soon be another's. */
  release(group: number): void {
    this.#shell?.stdin?.write(`release ${group}\n`)
  }

  /** Kills what is left; resolves when it is gone. May be called twice. */
  async stop(): Promise<void> {
    this.#shell?.ref()
    this.#shell?.stdin?.end()
    await this.#ended
  }
}
