import { type FSWatcher, watch } from 'node:fs'
import { dirname } from 'node:path'
import type { Clock } from './clock.ts'
import type { Logger } from './log.ts'

export interface FolderWatchComponents {
  readonly clock: Clock
  readonly log: Logger
  readonly onChange: () => void
  /** absent: Node's own */
  readonly watch?: typeof watch
}

export interface FolderWatchOptions {
  /** quiet time after an event before `onChange`, in ms: an editor causes several events with one change */
  readonly debounceMs: number
  /** `onChange` is called this often whatever the watch reports, in ms: not every file system reports changes */
  readonly safetyPollMs: number
}

/**
 * Pause before a folder that cannot be watched is tried again: it does not exist, or the system is out of watches. ms
 */
export const watchRetryMs = 1000

/**
 * Calls `onChange` after a change in the folders of some files. Folders are watched instead of files. A mounted Secret
 * swaps the symbolic link `..data`, an editor replaces the file, and both end a watch of the file itself.
 *
 * A watch belongs to a folder, not to its name. So after each change, and with each poll, the folder of that name is
 * watched again. A folder that cannot be watched is tried until it can be, and then `onChange` is called.
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
      queueMicrotask(() => this.#schedulePoll()) // one poll, however far the clock has jumped
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

  /** Watches the folder that has the name now. The old watch ends after that, so that no event is lost. */
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
