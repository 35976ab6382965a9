import { Turns } from './turns.ts'

export interface GroupTurnsOptions {
  /** at once, of all groups */
  readonly maxRunning: number
  /** of one group; absent: `maxRunning` */
  readonly maxRunningOfGroup?: number
  /** of one source; absent: that of its group */
  readonly maxRunningOfSource?: number
  /** waiting turns of one group; its sources share these places if they are scarce */
  readonly maxWaitingOfGroup: number
  /** error of a turn that has no place */
  readonly tooMany: () => Error
}

interface Group<Source> {
  readonly turns: Turns<Source>
  /** turns that run or wait */
  size: number
}

/** A bounded number of turns at once: groups take them one after another, and so do the sources of each group. */
export class GroupTurns<Key, Source> {
  readonly #options: GroupTurnsOptions
  readonly #places: Turns<Key>
  /** groups with turns */
  readonly #groups = new Map<Key, Group<Source>>()

  constructor(options: GroupTurnsOptions) {
    const { maxRunning, maxRunningOfGroup = maxRunning } = options
    this.#options = options
    this.#places = new Turns({ maxRunning, maxRunningOfSource: maxRunningOfGroup })
  }

  /** True while all turns are taken, and others wait. */
  get isContended(): boolean {
    return this.#places.isContended
  }

  /**
   * @param signal - ends the wait
   * @returns function that ends the turn
   * @throws `tooMany`; the signal's reason
   */
  async take(key: Key, source: Source, signal: AbortSignal): Promise<() => void> {
    const group = this.#groups.get(key) ?? this.#create(key)
    group.size++
    const ends = [() => this.#leave(key, group)]
    const end = () => {
      for (const each of ends.splice(0).reverse()) each()
    }
    try {
      ends.push(await group.turns.take(source, signal))
      ends.push(await this.#places.take(key, signal))
      return end
    } catch (error) {
      end()
      throw error
    }
  }

  #create(key: Key): Group<Source> {
    const { maxRunning, maxRunningOfGroup = maxRunning, maxRunningOfSource, maxWaitingOfGroup, tooMany } = this.#options
    const group = {
      turns: new Turns<Source>({
        maxRunning: maxRunningOfGroup + 1, // one waits for its place, so that others see that the group needs it
        maxRunningOfSource: maxRunningOfSource ?? maxRunningOfGroup + 1,
        maxWaiting: maxWaitingOfGroup,
        tooMany,
      }),
      size: 0,
    }
    this.#groups.set(key, group)
    return group
  }

  #leave(key: Key, group: Group<Source>): void {
    group.size--
    if (group.size === 0) this.#groups.delete(key)
  }
}
