import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../lib/clock.ts'
import { withDeadline } from '../../lib/deadline.ts'
import { KasError } from '../../lib/errors.ts'
import type { Logger } from '../../lib/log.ts'
import { linkedController } from '../../lib/signals.ts'
import type { Branch } from './branches.ts'
import { GitFolder, type GitFolderComponents } from './git-folder.ts'
import { GitHistory } from './git-history.ts'
import type { GitProcessOptions } from './git-process.ts'
import { type CommitId, isRefused } from './repositories.ts'

export interface GitMirrorComponents extends GitFolderComponents {
  readonly log: Logger
  readonly clock: Clock
}

export interface GitMirrorOptions extends GitProcessOptions {
  /** folder of this mirror's generations */
  readonly folder: string
  readonly maxRepositoryBytes: number
  /** bound of all mirrors that `disk` counts; while it is exceeded, none of them grows */
  readonly maxCountedBytes: number
  /** bound of the mirrors of one source */
  readonly maxCountedBytesOfSource: number
  /** fetches after which a new generation replaces the mirror: shallow fetches leave old objects behind */
  readonly renewAfterFetches: number
  /** the longest that one poll of the remote may take, in ms */
  readonly updateTimeoutMs: number
  /** between two size checks of the folder during a fetch, in ms */
  readonly sizeCheckMs: number
  /** time that a replaced generation stays for running reads, in ms */
  readonly keepReplacedMs: number
}

/** Time after which a refused commit is tried again, in ms: a machine without free memory refuses it as well. */
const refusedForMs = 3_600_000

interface Generation {
  readonly folder: GitFolder
  readonly generation: number
  fetched: CommitId | undefined
  /** the branch at the last poll; undefined: no poll yet, or no branch */
  ref?: string | undefined
  fetches: number
}

/**
 * The newest commit of one branch, on the disk. A new generation of the folder replaces one that grew too large. The
 * caller runs one `update` at a time; reads may run beside it.
 */
export class GitMirror {
  readonly #components: GitMirrorComponents
  readonly #options: GitMirrorOptions
  readonly #stopped = new AbortController()
  /** generations that wait for their removal, with the function that cancels the timer */
  readonly #replaced = new Map<GitFolder, () => void>()
  readonly #removals = new Set<Promise<void>>()
  readonly #history = new GitHistory((head) => this.#readHistory(head))
  #current: Generation | undefined
  /** the commit that was refused last: fetching it again soon fails in the same way */
  #refused: { readonly commit: CommitId; readonly error: KasError; readonly until: number } | undefined

  constructor(components: GitMirrorComponents, options: GitMirrorOptions) {
    this.#components = components
    this.#options = options
  }

  /**
   * Polls the branch, fetches it if it moved, and returns its commit; `undefined`: the repository is empty.
   *
   * @param isNotified - of a push: the branch is fetched without a poll. If the fetch brings nothing, a poll follows
   */
  async update(isNotified = false): Promise<CommitId | undefined> {
    return this.#inTime(async (signal) => {
      this.#current ??= await this.#open(signal)
      const current = this.#current
      const pushed = isNotified ? await this.#fetchUnseen(current, signal) : undefined
      if (pushed) return pushed
      const remote = await current.folder.remoteHead(signal)
      current.ref = remote?.ref
      if (!remote || remote.commit === current.fetched) return remote?.commit
      return await this.#fetch(remote, signal)
    })
  }

  /** Name of the branch at the last poll; undefined: there was none. */
  get branch(): string | undefined {
    return this.#current?.ref?.replace(/^refs\/heads\//, '')
  }

  async file(commit: CommitId, path: string, maxBytes: number, signal: AbortSignal): Promise<Uint8Array | undefined> {
    return await this.read((folder, ended) => folder.file(commit, path, maxBytes, ended), signal)
  }

  /**
   * Reads the current generation.
   *
   * @throws KasError REPOSITORY_FAILED if nothing was fetched yet; what `work` throws
   */
  async read<T>(work: (folder: GitFolder, ended: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    const current = this.#current
    if (!current) throw new KasError({ code: 'REPOSITORY_FAILED', detail: 'nothing was fetched yet' })
    const controller = linkedController(this.#stopped.signal, signal)
    try {
      return await work(current.folder, controller.signal)
    } finally {
      controller.dispose()
    }
  }

  /** Returns ids of the newest commits up to `head`, fetched once per head. @throws KasError REPOSITORY_FAILED */
  history(head: CommitId, signal: AbortSignal): Promise<ReadonlySet<string>> {
    return this.#history.upTo(head, signal)
  }

  #readHistory(head: CommitId): Promise<ReadonlySet<string>> {
    const reading = this.#inTime(async (signal) => {
      const ref = this.#current?.ref
      if (ref === undefined) throw new KasError({ code: 'REPOSITORY_FAILED', detail: 'nothing was fetched yet' })
      const folder = new GitFolder(join(this.#options.folder, 'history'), this.#components, this.#options)
      try {
        await folder.prepare(signal)
        const fetched = await this.#bounded(folder, ref, signal, 'history')
        if (fetched instanceof KasError) throw fetched
        return new Set(await folder.history(head, signal))
      } finally {
        await folder.remove().catch(() => undefined)
      }
    })
    const ended = reading.then(
      () => undefined,
      () => undefined, // the caller gets the error
    )
    this.#removals.add(ended)
    void ended.then(() => this.#removals.delete(ended))
    return reading
  }

  #inTime<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { updateTimeoutMs } = this.#options
    const detail = `git took longer than ${updateTimeoutMs} ms`
    const reason = () => new KasError({ code: 'REPOSITORY_FAILED', detail })
    const { clock } = this.#components
    return withDeadline({ ms: updateTimeoutMs, clock, signals: [this.#stopped.signal], reason }, work)
  }

  /** Ends running git processes; fetched objects stay on the disk for the next start. */
  async stop(): Promise<void> {
    this.#stopped.abort(new KasError({ code: 'SHUTTING_DOWN' }))
    for (const [folder, cancel] of this.#replaced) {
      cancel()
      this.#remove(folder)
    }
    await Promise.all(this.#removals)
  }

  /** Removes the mirror's folder, after `stop`. */
  async remove(): Promise<void> {
    try {
      await this.#current?.folder.remove()
      await rm(this.#options.folder, { recursive: true, force: true, maxRetries: 3 })
    } catch (error) {
      this.#components.log.warn({ error }, 'Replaced mirror cannot be removed')
    }
  }

  /** Opens the newest generation that an earlier process left, and removes older and incomplete ones. */
  async #open(signal: AbortSignal) {
    const { folder } = this.#options
    const left = await readdir(folder).catch(() => [])
    const generations = left.filter((name) => /^\d+$/.test(name)).map(Number)
    const generation = Math.max(0, ...generations)
    for (const name of left.filter((other) => other !== String(generation)))
      await rm(join(folder, name), { recursive: true, force: true })
    const opened = await this.#generation(generation, signal)
    if ((await opened.folder.size()) <= this.#options.maxRepositoryBytes) return opened
    await opened.folder.remove()
    return this.#generation(generation + 1, signal)
  }

  async #generation(generation: number, signal: AbortSignal): Promise<Generation> {
    const folder = new GitFolder(join(this.#options.folder, String(generation)), this.#components, this.#options)
    await folder.prepare(signal)
    return { folder, generation, fetched: await folder.fetchedCommit(signal), fetches: 0 }
  }

  async #fetch(remote: Branch, signal: AbortSignal): Promise<CommitId> {
    const refused = this.#refused
    if (refused?.commit === remote.commit && this.#components.clock.now() < refused.until) throw refused.error
    this.#refused = undefined
    const current = this.#current
    if (current && !this.#isWorn(current)) {
      const commit = await this.#fetchInto(current, remote.ref, signal).catch((error) => this.#failed(error))
      if (!(commit instanceof KasError)) return commit
    }
    return await this.#renew(remote, signal)
  }

  /** Fetches the branch of the last poll. @returns undefined: the branch has not moved, or a poll is needed */
  async #fetchUnseen(current: Generation, signal: AbortSignal): Promise<CommitId | undefined> {
    const { ref, fetched } = current
    if (!ref?.startsWith('refs/heads/') || !fetched) return undefined
    if (this.#refused || this.#isWorn(current)) return undefined
    try {
      const commit = await this.#fetchInto(current, ref, signal)
      return commit instanceof KasError || commit === fetched ? undefined : commit
    } catch (error) {
      signal.throwIfAborted()
      this.#components.log.debug({ error }, 'A push could not be fetched: the branch is polled')
      return undefined
    }
  }

  /** @returns as `#bounded` */
  async #fetchInto(current: Generation, ref: string, signal: AbortSignal): Promise<CommitId | KasError> {
    const commit = await this.#bounded(current.folder, ref, signal)
    if (commit instanceof KasError) {
      current.fetches = Number.POSITIVE_INFINITY // a new one may be smaller: no delta to older objects
    } else if (commit !== current.fetched) {
      current.fetched = commit
      current.fetches++
    }
    return commit
  }

  #isWorn({ fetches }: Generation): boolean {
    return fetches >= this.#options.renewAfterFetches
  }

  /** Removes a mirror that has no fetched commit while a bound is exceeded: it takes no room from the others. */
  async #failed(error: unknown): Promise<never> {
    const current = this.#current
    if (this.#fullness !== undefined && current?.fetched === undefined) {
      this.#current = undefined
      await current?.folder.remove()
    }
    throw error
  }

  async #renew(remote: Branch, signal: AbortSignal): Promise<CommitId> {
    const replaced = this.#current
    const next = await this.#generation((replaced?.generation ?? -1) + 1, signal)
    try {
      const commit = await this.#bounded(next.folder, remote.ref, signal)
      if (commit instanceof KasError) {
        const until = this.#components.clock.now() + refusedForMs
        this.#refused = { commit: remote.commit, error: commit, until }
        throw commit
      }
      this.#current = { ...next, ref: remote.ref, fetched: commit, fetches: 1 }
      if (replaced) this.#removeLater(replaced.folder)
      return commit
    } catch (error) {
      await next.folder.remove().catch(() => undefined)
      throw error
    }
  }

  /**
   * Fetches, and checks the folder's size before, during and after.
   *
   * @returns the error that refuses the commit if the folder grows beyond its bound
   */
  async #bounded(
    folder: GitFolder,
    ref: string,
    signal: AbortSignal,
    what: 'files' | 'history' = 'files',
  ): Promise<CommitId | KasError> {
    const { maxRepositoryBytes } = this.#options
    const tooLarge = async () => {
      const size = await folder.size()
      this.#checkCounted()
      return size > maxRepositoryBytes
    }
    const overflow = this.#tooLargeError()
    if (await tooLarge()) return overflow
    const controller = linkedController(signal)
    const watching = this.#whileRunning(async () => {
      try {
        if (await tooLarge()) controller.abort(overflow)
      } catch (error) {
        controller.abort(error)
      }
    })
    try {
      const commit = await folder.fetch(ref, controller.signal, what)
      return (await tooLarge()) ? overflow : commit
    } catch (error) {
      if (error === overflow) return overflow
      if (isRefused(error)) return error
      throw error
    } finally {
      watching.end()
      controller.dispose()
    }
  }

  /** The bound of mirrors that is exceeded, as an error's detail; undefined: none. */
  get #fullness(): string | undefined {
    const { disk, source } = this.#components
    const { maxCountedBytes, maxCountedBytesOfSource } = this.#options
    const refs = 'refs beside default branches'
    if (!disk) return undefined
    if (disk.of(source) > maxCountedBytesOfSource) {
      return `${refs} of one agent take more than ${maxCountedBytesOfSource} bytes`
    }
    return disk.total > maxCountedBytes ? `${refs} take more than ${maxCountedBytes} bytes` : undefined
  }

  /** @throws KasError REPOSITORY_FAILED */
  #checkCounted(): void {
    const detail = this.#fullness
    if (detail !== undefined) throw new KasError({ code: 'REPOSITORY_FAILED', detail })
  }

  #whileRunning(check: () => Promise<void>): { end(): void } {
    const { clock } = this.#components
    let ended = false
    let cancel: () => void = () => undefined
    const next = () => {
      cancel = clock.after(this.#options.sizeCheckMs, () => void check().finally(() => ended || next()))
    }
    next()
    return {
      end() {
        ended = true
        cancel()
      },
    }
  }

  #removeLater(folder: GitFolder): void {
    const cancel = this.#components.clock.after(this.#options.keepReplacedMs, () => this.#remove(folder))
    this.#replaced.set(folder, cancel)
  }

  #remove(folder: GitFolder): void {
    this.#replaced.delete(folder)
    const removal = folder
      .remove()
      .catch((error: unknown) => this.#components.log.warn({ error }, 'Replaced mirror cannot be removed'))
      .then(() => void this.#removals.delete(removal))
    this.#removals.add(removal)
  }

  #tooLargeError(): KasError {
    const detail = `the newest commit takes more than ${this.#options.maxRepositoryBytes} bytes`
    return new KasError({ code: 'REPOSITORY_FAILED', detail, isRefused: true })
  }
}
