import { objectName, type ShownSource } from './state.ts'

type Health = NonNullable<ShownSource['health']>
type HealthOf = Pick<ShownSource, 'health' | 'stale' | 'commit' | 'wanted'>

/** Words of the verdicts that are not `healthy`, the worst first. */
const words = [
  'degraded',
  'missing',
  'progressing',
  'unknown',
  'suspended',
] as const satisfies readonly (keyof Health)[]

/** Returns the worst verdict that an object has; undefined: all are healthy. */
export function worstWord(health: Health | undefined): (typeof words)[number] | undefined {
  return health && words.find((word) => health[word] > 0)
}

/** Counts the objects with the worst verdict: `2 degraded`. `?`: not all are known; `-`: none can be unhealthy. */
export function healthCell({ health, stale, commit, wanted }: HealthOf): string {
  if (!health) return '?'
  const worst = worstWord(health)
  const isKnown = health.unread === 0 && !stale && commit === wanted
  if (worst !== undefined) return `${health[worst]} ${worst}${isKnown ? '' : '?'}`
  if (!isKnown) return '?'
  return health.healthy > 0 ? 'healthy' : '-'
}

/** Lines about the objects of a source that are not healthy, and about what agentk cannot read of them. */
export function healthLines({ unhealthy = [], unlisted = [] }: Pick<ShownSource, 'unhealthy' | 'unlisted'>): string[] {
  return [...unhealthy.map(healthLine), ...unlisted.map((text) => `causes may not be found: ${text}`)]
}

/** `Deployment shop/web: degraded: Pod shop/web-7d4b9-x2x: ImagePullBackOff: …` */
export function healthLine({
  key,
  word,
  culprit,
  reason,
  text,
}: NonNullable<ShownSource['unhealthy']>[number]): string {
  const name = objectName(key)
  const isOther = culprit && objectName(culprit) !== name
  const cause = [isOther ? objectName(culprit) : '', reason, text].filter((part) => part !== '').join(': ')
  return `${name}: ${word}${cause && `: ${cause}`}`
}
