import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { maxObjects } from '../../../../proto/gitops/limits.ts'
import type { Build, Outcome, Refusal, SourceClaims } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'

/** Refusals of a commit that come from the configuration and the agent's other sources, not from its manifests. */

type Refused = Extract<Outcome, { kind: 'refused' }>

/** Refuses to adopt from a source that is still configured: two sources would apply against each other. */
export function adoptsStanding(
  { adopt }: Pick<SourceOptions, 'adopt'>,
  claims: Pick<SourceClaims, 'stands'>,
): Refused | undefined {
  const id = adopt.find((one) => claims.stands(one) === 'yes')
  if (id === undefined) return undefined
  const text = `adopt: ${id} is a source of this configuration still: take it out there, or out of adopt`
  return { kind: 'refused', problems: [{ file: '', line: 0, text }], isWaitingForOthers: true }
}

/** Leaves out of `adopt` what may be a source whose project is not known yet: it is adopted later. */
export function adoptingNow(options: SourceOptions, claims: Pick<SourceClaims, 'stands'>): SourceOptions {
  return { ...options, adopt: options.adopt.filter((id) => claims.stands(id) === 'no') }
}

/** Refuses a commit without files: the source has made nothing yet, so its path is probably misspelt. */
export function nothingChosen({ paths }: Pick<SourceOptions, 'paths'>): Refused {
  const chosen = paths.map(({ glob, file }) => glob ?? file).join(', ')
  const text = `no file of the repository is chosen by paths: ${chosen}`
  return { kind: 'refused', problems: [{ file: '', line: 0, text }], isWaitingForOthers: false }
}

/** Refuses a commit with objects for which the agent has no room. @returns the build otherwise */
export function checkRoom(
  built: Build | Refusal,
  claims: Pick<SourceClaims, 'hasRoom'>,
): Build | (Refusal & { readonly isWaitingForOthers?: boolean }) {
  if (built.kind === 'refused' || claims.hasRoom(keyed(built.manifests))) return built
  const { length } = built.manifests
  const text = `all sources of the agent want more than ${maxObjects} objects: with the ${length} of this one`
  return { kind: 'refused', problems: [{ file: '', line: 0, text }], isWaitingForOthers: true }
}

/** Returns the keys by `keyText`. */
export function keyed(all: Iterable<{ readonly key: ObjectKey }>): ReadonlyMap<string, ObjectKey> {
  return new Map(Array.from(all, ({ key }) => [keyText(key), key]))
}
