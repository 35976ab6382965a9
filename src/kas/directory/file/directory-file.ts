import { open } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { AgentId } from '../../../call/call.ts'
import { type Clock, systemClock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { FolderWatch, type FolderWatchOptions } from '../../../lib/folder-watch.ts'
import { Listeners } from '../../../lib/listeners.ts'
import type { Logger } from '../../../lib/log.ts'
import { RepeatedRead } from '../../../lib/repeated-read.ts'
import type { Service } from '../../../lib/service.ts'
import { tokenHash } from '../../../lib/token-hash.ts'
import type { RepositoryAddress } from '../../repositories/repository-url.ts'
import { type DirectoryContents, parseDirectory, type TokenEntry } from './directory-contents.ts'
import { type DirectoryMetrics, noDirectoryMetrics } from './directory-metrics.ts'
import { EndingTokens } from './ending-tokens.ts'
import { type Expiry, TokenExpiry } from './token-expiry.ts'

export interface DirectoryFileOptions extends Partial<FolderWatchOptions> {
  readonly file: string
  /** a larger file is refused, in bytes */
  readonly maxBytes?: number
}

/**
 * `none`: no read succeeded yet; `good`: the file on the disk is in force; `stale`: it is invalid, and an older one is
 * in force.
 */
export interface DirectoryFileState {
  readonly inForce: 'none' | 'good' | 'stale'
  /** when the contents in force were read, in ms since 1970 */
  readonly readAt?: number | undefined
  /** reason for which the file on the disk cannot be used */
  readonly problem?: string
}

const defaults = { debounceMs: 50, safetyPollMs: 10_000, maxBytes: 16 << 20 }

/**
 * The directory file, read at start and after each change. If the first read fails, nobody has access. If a later read
 * fails, the last good contents stay in force, and log, metric and `state` report the failure.
 */
export class DirectoryFile implements Service {
  readonly #file: string
  readonly #maxBytes: number
  readonly #log: Logger
  readonly #clock: Clock
  readonly #metrics: DirectoryMetrics
  readonly #watch: FolderWatch
  readonly #agentExpiry: TokenExpiry<AgentId>
  readonly #callerExpiry: TokenExpiry<'caller'>
  readonly #ending: EndingTokens
  readonly #listeners = new Listeners()
  readonly #expiryListeners = new Listeners<ReadonlySet<AgentId>>()
  readonly #callerListeners = new Listeners()
  #contents: DirectoryContents | undefined
  #someHook: { readonly of: DirectoryContents | undefined; readonly file: string | undefined } | undefined
  #state: DirectoryFileState = { inForce: 'none' }
  /** marks the last read, good or failed: the same result is not processed twice */
  #lastSeen: string | undefined
  readonly #reading = new RepeatedRead(() => this.#read())
  #stopped = false

  constructor(
    components: { readonly log: Logger; readonly clock?: Clock; readonly metrics?: DirectoryMetrics },
    options: DirectoryFileOptions,
  ) {
    const { debounceMs, safetyPollMs, maxBytes } = { ...defaults, ...options }
    this.#file = resolve(options.file)
    this.#maxBytes = maxBytes
    this.#log = components.log.child({ mod_name: 'directory' })
    this.#clock = components.clock ?? systemClock
    this.#metrics = components.metrics ?? noDirectoryMetrics
    const onExpired = (agentIds: ReadonlySet<AgentId>) => this.#expiryListeners.notify(agentIds)
    this.#agentExpiry = new TokenExpiry({ clock: this.#clock, onExpired })
    const onCallersExpired = () => this.#callerListeners.notify()
    this.#callerExpiry = new TokenExpiry({ clock: this.#clock, onExpired: onCallersExpired })
    this.#ending = new EndingTokens({ clock: this.#clock, log: this.#log, metrics: this.#metrics })
    const onChange = () => void this.read()
    this.#watch = new FolderWatch(
      [this.#file],
      { clock: this.#clock, log: this.#log, onChange },
      { debounceMs, safetyPollMs },
    )
  }

  /** The contents in force; `undefined` until a read succeeds. */
  get contents(): DirectoryContents | undefined {
    return this.#contents
  }

  get state(): DirectoryFileState {
    return this.#state
  }

  /** Returns the address of a project's repository; undefined: the file in force names none. */
  repository(projectId: bigint): RepositoryAddress | undefined {
    return this.#contents?.projects.get(projectId)?.git
  }

  /** Returns the file of one hook secret of any project; undefined: no project has one. */
  someHookSecretFile(): string | undefined {
    const contents = this.#contents
    if (!this.#someHook || this.#someHook.of !== contents) {
      const files = [...(contents?.projects.values() ?? [])].map(({ git }) => git?.hookSecretFile)
      this.#someHook = { of: contents, file: files.find((file) => file !== undefined) }
    }
    return this.#someHook.file
  }

  /** Calls `listener` after other contents came into force, until the returned function is called. */
  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener)
  }

  /** Calls `listener` after tokens of these agents have expired, until the returned function is called. */
  onExpired(listener: (agentIds: ReadonlySet<AgentId>) => void): () => void {
    return this.#expiryListeners.add(listener)
  }

  /** Calls `listener` after tokens of users or jobs have expired, until the returned function is called. */
  onCallersExpired(listener: () => void): () => void {
    return this.#callerListeners.add(listener)
  }

  /** Resolves also if the file cannot be read: then nobody has access until a read succeeds. */
  async start(): Promise<void> {
    this.#watch.start() // before the read, so that no change falls between
    await this.read()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#watch.stop()
    this.#agentExpiry.stop()
    this.#callerExpiry.stop()
    this.#ending.stop()
    await this.#reading.stop()
  }

  /** Reads the file now. */
  read(): Promise<void> {
    return this.#reading.now()
  }

  async #read(): Promise<void> {
    let text: string
    try {
      text = await readBounded(this.#file, this.#maxBytes)
    } catch (error) {
      if (!this.#stopped) this.#failed(`unreadable ${(error as Error).message}`, (error as Error).message)
      return
    }
    const seen = `read ${tokenHash(text)}`
    if (this.#stopped || this.#lastSeen === seen) return
    let parsed: ReturnType<typeof parseDirectory>
    try {
      parsed = parseDirectory(this.#file, text)
    } catch (error) {
      this.#failed(seen, KasError.from(error).message)
      return
    }
    this.#lastSeen = seen
    for (const { kind, key, hint } of parsed.warnings) {
      const message =
        kind === 'unknown' ? 'Unknown key in the directory file' : 'Key without effect in the directory file'
      this.#log.warn({ key, hint, file: this.#file }, message)
    }
    this.#good(parsed.contents)
  }

  #good(contents: DirectoryContents): void {
    this.#contents = contents
    this.#state = { inForce: 'good', readAt: this.#clock.now() }
    this.#metrics.read('ok')
    const counts = {
      agents: contents.agents.size,
      projects: contents.projects.size,
      user_tokens: contents.userTokens.size,
    }
    this.#log.info({ file: this.#file, ...counts }, 'Directory file is in force')
    this.#agentExpiry.watch(expiriesOf(contents.agentTokens, ({ id }) => id))
    this.#callerExpiry.watch([
      ...expiriesOf(contents.userTokens, callerOf),
      ...expiriesOf(contents.jobTokens, callerOf),
    ])
    this.#ending.watch(contents)
    this.#listeners.notify()
  }

  #failed(seen: string, problem: string): void {
    if (this.#lastSeen === seen) return
    this.#lastSeen = seen
    this.#metrics.read('failed')
    const { readAt } = this.#state
    this.#state = { inForce: this.#contents ? 'stale' : 'none', problem, readAt }
    const consequence = this.#contents ? 'the last good one stays in force' : 'nobody has access'
    this.#log.error({ file: this.#file, error: problem }, `Directory file cannot be used, ${consequence}`)
  }
}

const callerOf = () => 'caller' as const

/** Lists the ends of tokens that expire. */
function expiriesOf<T, Owner>(
  tokens: ReadonlyMap<string, TokenEntry<T>>,
  ownerOf: (owner: T) => Owner,
): Expiry<Owner>[] {
  return [...tokens.values()].flatMap(({ owner, expiresAt }) =>
    expiresAt === undefined ? [] : [{ owner: ownerOf(owner), at: expiresAt }],
  )
}

async function readBounded(file: string, maxBytes: number): Promise<string> {
  const handle = await open(file)
  try {
    const stats = await handle.stat()
    if (!stats.isFile()) throw new Error('it is not a regular file')
    if (stats.size > maxBytes) throw new Error(`it has ${stats.size} bytes, more than ${maxBytes}`)
    return await handle.readFile('utf8')
  } finally {
    await handle.close()
  }
}
