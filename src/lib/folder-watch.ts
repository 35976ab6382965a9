import { type FSWatcher, watch } from 'node:fs'
import { dirname } from 'node:path'
import type { Clock } from './clock.ts'
import type { Logger } from './log.ts'

export interface FolderWatchComponents {
  readonly clock: Clock
  readonly log: Logger
  readonly onChange: () => void
  /** node's own, unless a test has another */
  readonly watch?: typeof watch
}

export interface FolderWatchOptions {
  /** quiet time after an event before `onChange`, in ms: an editor makes several events of one change */
  readonly debounceMs: number
  /** `onChange` is called this often whatever the watch says, in ms: not every file system reports changes */
  readonly safetyPollMs: number
}

/** Until a folder that cannot be watched is tried again: it is away, or the system is out of watches. ms */
export const watchRetryMs = 1000

/**
 * Calls `onChange` after something happened in the folders of some files. Folders are watched, not files: a mounted
 * Secret swaps the symbolic link `..data`, an editor replaces the file, and either ends a watch of the file itself.
 *
 * A watch is bound to a folder, not to its name: after each change, and with each poll, the folder that bears the name
 * now is watched anew. One that cannot be watched is tried until it can, and then `onChange` is called.
 */
export class FolderWatch {
  readonly #folders: readonly string[]
  readonly #components: FolderWatchComponents
  readonly #options: FolderWatchOptions
  readonly #watch: typeof watch
  readonly #watchers = new Map<string, FSWatcher>()
  readonly #unwatched = new Set<string>()
  #cancelDebounce: (() => void) | undefined
  #cancelPoll: (() => void) | undefined
  #cancelRetry: (() => void) | undefined
  #stopped = false

  constructor(files: readonly string[], components: FolderWatchComponents, options: FolderWatchOptions) {
    this.#folders = [...new Set(files.map((file) => dirname(file)))]
    this.#components = components
    this.#watch = components.watch ?? watch
    this.#options = options
  }

  start(): void {
    this.#attachAll()
    this.#schedulePoll()
  }

  stop(): void {
    this.#stopped = true
    this.#cancelDebounce?.()
    this.#cancelPoll?.()
    this.#cancelRetry?.()
    for (const watcher of this.#watchers.values()) watcher.close()
    this.#watchers.clear()
  }

  #schedulePoll(): void {
    if (this.#stopped) return
    this.#cancelPoll = this.#components.clock.after(this.#options.safetyPollMs, () => {
      this.#attachAll()
      this.#components.onChange()
      queueMicrotask(() => this.#schedulePoll()) // however far the clock has jumped, it is one poll
    })
  }

  #scheduleRetry(): void {
    this.#cancelRetry ??= this.#components.clock.after(watchRetryMs, () => {
      const back = [...this.#unwatched].filter((folder) => this.#attach(folder))
      if (back.length > 0) this.#components.onChange()
      queueMicrotask(() => {
        this.#cancelRetry = undefined
        if (this.#unwatched.size > 0 && !this.#stopped) this.#scheduleRetry()
      })
    })
  }

  #attachAll(): void {
    for (const folder of this.#folders) this.#attach(folder)
  }

  /** Watches the folder that bears the name now; the watch before ends after that, so that nothing falls between. */
  #attach(folder: string): boolean {
    const before = this.#watchers.get(folder)
    try {
      const watcher = this.#watch(folder, { persistent: false }, () => this.#onEvent())
      watcher.on('error', (error) => this.#watchers.get(folder) === watcher && this.#lost(folder, error))
      this.#watchers.set(folder, watcher)
    } catch (error) {
      this.#lost(folder, error)
      return false
    }
    before?.close()
    if (this.#unwatched.delete(folder)) this.#components.log.info({ folder }, 'Folder is watched again')
    return true
  }

  #lost(folder: string, error: unknown): void {
    this.#watchers.get(folder)?.close()
    this.#watchers.delete(folder)
    this.#scheduleRetry()
    if (this.#unwatched.has(folder)) return
    this.#unwatched.add(folder)
    this.#components.log.warn({ error, folder }, 'Folder is not watched, it is read now and then until it can be')
  }

  #onEvent(): void {
    this.#cancelDebounce?.()
    this.#cancelDebounce = this.#components.clock.after(this.#options.debounceMs, () => {
      this.#attachAll()
      if (!this.#stopped) this.#components.onChange()
    })
  }
}
