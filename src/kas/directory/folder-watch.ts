import { type FSWatcher, watch } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Clock } from '../../lib/clock.ts'

export interface FolderWatchOptions {
  /** quiet time after an event before `onChange`, in ms: an editor makes several events of one change */
  readonly debounceMs: number
  /** `onChange` is called this often whatever the watch says, in ms: not every file system tells of changes */
  readonly safetyPollMs: number
}

/**
 * Calls `onChange` after something happened in the folder of a file. The folder is watched, not the file: a mounted
 * Secret swaps the symbolic link `..data`, an editor replaces the file, and either ends a watch of the file itself.
 */
export class FolderWatch {
  readonly #folder: string
  readonly #clock: Clock
  readonly #options: FolderWatchOptions
  readonly #onChange: () => void
  #watcher: FSWatcher | undefined
  #watchedInode: bigint | undefined
  #cancelDebounce: (() => void) | undefined
  #cancelPoll: (() => void) | undefined
  #stopped = false

  constructor(file: string, components: { clock: Clock; onChange: () => void }, options: FolderWatchOptions) {
    this.#folder = dirname(file)
    this.#clock = components.clock
    this.#onChange = components.onChange
    this.#options = options
  }

  async start(): Promise<void> {
    await this.#attach()
    this.#schedulePoll()
  }

  stop(): void {
    this.#stopped = true
    this.#cancelDebounce?.()
    this.#cancelPoll?.()
    this.#detach()
  }

  #schedulePoll(): void {
    if (this.#stopped) return
    this.#cancelPoll = this.#clock.after(this.#options.safetyPollMs, () => {
      this.#onChange()
      void this.#attach().finally(() => this.#schedulePoll())
    })
  }

  /** Watches the folder that bears the name now: it may have been replaced, or not have been there. */
  async #attach(): Promise<void> {
    const inode = await stat(this.#folder, { bigint: true }).then(
      (stats) => stats.ino,
      () => undefined,
    )
    if (this.#stopped || (inode === this.#watchedInode && this.#watcher)) return
    this.#detach()
    if (inode === undefined) return
    try {
      this.#watcher = watch(this.#folder, { persistent: false }, () => this.#onEvent())
    } catch {
      return // out of watches: the poll goes on
    }
    this.#watchedInode = inode
    this.#watcher.on('error', () => this.#detach())
  }

  #detach(): void {
    this.#watcher?.close()
    this.#watcher = undefined
    this.#watchedInode = undefined
  }

  #onEvent(): void {
    this.#cancelDebounce?.()
    this.#cancelDebounce = this.#clock.after(this.#options.debounceMs, () => this.#onChange())
  }
}
