import type { FollowState, ObjectSink } from '../store/record.ts'
import type { Away } from './registrations.ts'
import type { ServedKind } from './served-kinds.ts'

export interface Unfollowed extends Pick<FollowState, 'is' | 'since' | 'why'> {
  readonly kind: ServedKind
}

/** Names the kinds that are wanted but not followed, with the reason. */
export class UnfollowedKinds {
  readonly #sink: Pick<ObjectSink, 'dropped' | 'state'>
  /** by `group/Kind` */
  #named = new Map<string, Unfollowed>()

  constructor(sink: Pick<ObjectSink, 'dropped' | 'state'>) {
    this.#sink = sink
  }

  /** Replaces the list with the kinds of now. A kind whose reason stays keeps its time. */
  name(all: readonly Unfollowed[]): void {
    const named = new Map(all.map((one) => [one.kind.key, one]))
    for (const [key, { kind }] of this.#named) if (!named.has(key)) this.#sink.dropped(kind, undefined)
    for (const [key, one] of named) {
      const known = this.#named.get(key)
      if (known?.why === one.why) named.set(key, known)
      else this.#sink.state(one.kind, { ...stateOf(one), refusedNamespaces: [], leftOut: [] })
    }
    this.#named = named
  }
}

const stateOf = ({ is, since, why }: Unfollowed) => ({ is, since, why })

/** Returns the kinds of groups whose server does not answer; for a group without known kinds, `GROUP/*`. */
export function kindsAway(kinds: readonly ServedKind[], away: ReadonlyMap<string, Away>): readonly ServedKind[] {
  return [...away.keys()].flatMap((group) => {
    const known = kinds.filter((kind) => kind.group === group)
    return known.length > 0 ? known : [anyOf(group)]
  })
}

function anyOf(group: string): ServedKind {
  const names = { singular: '', short: [], categories: [] }
  return { key: `${group}/*`, group, version: '', plural: '*', isNamespaced: false, hasStatus: false, names }
}
