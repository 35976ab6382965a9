import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { lstat, mkdir, readdir, rm, stat } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { KasError } from './errors.ts'
import type { Logger } from './log.ts'
import type { Service } from './service.ts'
import { tokenHash } from './token-hash.ts'

/** Socket on which the folder's owner listens. A killed process no longer listens, whatever its pid. */
const lockName = 'owner.sock'

/** A younger folder may not have its lock yet. ms */
const minStaleAgeMs = 10_000

/**
 * A folder below TMPDIR for data that can be read again. It exists from start to stop, or to the exit of the process.
 * Start removes the folders that killed processes of this machine left behind.
 */
export class TemporaryFolder implements Service {
  readonly path: string
  readonly #log: Logger
  readonly #parent: string
  readonly #prefix: string
  readonly #onExit = () => rmSync(this.path, { recursive: true, force: true })
  #lock: Server | undefined

  /**
   * @param options.program - owner of the folder: start removes only folders that this program left behind
   * @param options.parent - default: TMPDIR
   */
  constructor(components: { log: Logger }, options: { program: 'kas' | 'agentk'; parent?: string }) {
    this.#log = components.log
    this.#parent = options.parent ?? tmpdir()
    this.#prefix = `${options.program}-${tokenHash(hostname()).slice(0, 8)}-` // only this machine's locks can be tried
    this.path = join(this.#parent, `${this.#prefix}${randomUUID()}`)
  }

  /** @throws KasError SETTINGS_INVALID: the folder cannot be written */
  async start(): Promise<void> {
    await mkdir(this.path, { mode: 0o700 }).catch((cause: NodeJS.ErrnoException) => {
      const problem = `TMPDIR: no folder can be made in ${this.#parent} (${cause.code}): mount a volume there that is writable, or name one`
      throw new KasError({ code: 'SETTINGS_INVALID', file: 'environment', problems: [problem] }, { cause })
    })
    process.once('exit', this.#onExit)
    await this.#takeLock()
    await this.#removeStale()
  }

  async stop(): Promise<void> {
    process.off('exit', this.#onExit)
    this.#lock?.close()
    await rm(this.path, { recursive: true, force: true })
  }

  async #takeLock(): Promise<void> {
    const lock = createServer((socket) => socket.destroy())
    lock.unref()
    this.#lock = lock
    try {
      await once(lock.listen(join(this.path, lockName)), 'listening')
    } catch (error) {
      // for example, TMPDIR is too long for a socket: without a lock only its owner removes the folder
      this.#log.debug({ error }, 'Temporary folder has no lock')
    }
  }

  async #removeStale(): Promise<void> {
    const names = await readdir(this.#parent).catch(() => [])
    for (const name of names) {
      const folder = join(this.#parent, name)
      if (!name.startsWith(this.#prefix) || folder === this.path || !(await isStale(folder))) continue
      const removed = await rm(folder, { recursive: true, force: true }).then(
        () => true,
        () => false,
      )
      if (removed) this.#log.info({ folder }, 'Folder of a process that was killed is removed')
    }
  }
}

/**
 * True if the folder belongs to this user and has a lock on which no process listens. Any user may make such a name in
 * TMPDIR.
 */
async function isStale(folder: string): Promise<boolean> {
  const own = await lstat(folder).catch(() => undefined)
  if (!own?.isDirectory() || own.uid !== process.getuid?.()) return false
  const lock = join(folder, lockName)
  const stats = await stat(lock).catch(() => undefined)
  if (!stats?.isSocket() || Date.now() - stats.mtimeMs < minStaleAgeMs) return false
  const socket = connect(lock)
  try {
    await once(socket, 'connect')
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ECONNREFUSED'
  } finally {
    socket.destroy()
  }
}
