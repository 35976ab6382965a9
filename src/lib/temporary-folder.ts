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

/** A socket on which the process listens that owns the folder: a killed one no longer does, whatever its pid. */
const lockName = 'owner.sock'

/** A folder that is younger may not have its lock yet. ms */
const minStaleAgeMs = 10_000

/**
 * A folder below TMPDIR for what can be had again; it lives from start to stop, or to the exit.
 * Those that killed processes of this machine left behind are removed at start.
 */
export class TemporaryFolder implements Service {
  readonly path: string
  readonly #log: Logger
  readonly #parent: string
  readonly #prefix: string
  readonly #onExit = () => rmSync(this.path, { recursive: true, force: true })
  #lock: Server | undefined

  /**
   * @param options.program - whose folders these are: it removes those that it left behind, and no others
   * @param options.parent - default: TMPDIR
   */
  constructor(components: { log: Logger }, options: { program: 'kas' | 'agentk'; parent?: string }) {
    this.#log = components.log
    this.#parent = options.parent ?? tmpdir()
    this.#prefix = `${options.program}-${tokenHash(hostname()).slice(0, 8)}-` // another machine's locks cannot be tried from here
    this.path = join(this.#parent, `${this.#prefix}${randomUUID()}`)
  }

  /** @throws KasError SETTINGS_INVALID where nothing can be written */
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
      // such as a TMPDIR that is too long for a socket: without a lock nobody removes the folder but its owner
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

/** It is a folder of this user, its lock is there, and nobody holds it: any user may make one of the name in TMPDIR. */
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
