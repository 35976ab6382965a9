import { objectName, type ShownSource } from './state.ts'

export type Drifted = NonNullable<ShownSource['drifted']>[number]

/** Clock of the agent at its report, and the mode of the source. */
export type DriftReport = Pick<ShownSource, 'at_ms' | 'age_ms' | 'drift_mode'>

/** Paths of one object in a line. */
const maxPaths = 5

/** Returns a line for each object that has drifted, with what follows. Ages are by the agent's clock alone. */
export function driftLines(source: ShownSource): readonly string[] {
  const { drifted = [], counts } = source
  const lines = drifted.map((one) => driftLine(one, source))
  const { drifted: all = 0, not_compared: notCompared = 0, would_change: wouldChange = 0 } = counts ?? {}
  const more = all + notCompared + wouldChange - drifted.length
  return more > 0 ? [...lines, `and ${more} more objects that differ from Git`] : lines
}

/** Returns the line about one object. */
export function driftLine(one: Drifted, source: DriftReport): string {
  return `${objectName(one.key)}: ${whatOf(one)}${byText(one, source)}${thenText(one, source)}`
}

function whatOf({ kind, deleted, path, more_paths: rest, text }: Drifted): string {
  if (kind === 'not_compared') return `cannot be compared with Git: ${text}`
  if (deleted) return 'deleted in the cluster'
  const more = rest + Math.max(0, path.length - maxPaths)
  const names = path.slice(0, maxPaths).join(', ')
  const others = more > 0 ? `${more} ${names === '' ? '' : 'more '}field${more > 1 ? 's' : ''}` : ''
  const fields = [names, others].filter((part) => part !== '').join(', ') || 'some field'
  if (kind === 'would_change') return `an apply would change ${fields}: an admission webhook came later`
  return text === '' ? `changed in the cluster: ${fields}` : `changed in the cluster, and cannot be compared: ${text}`
}

function byText({ kind, manager, operation, changed_at_ms: at }: Drifted, source: DriftReport): string {
  if (kind !== 'drifted') return ''
  if (manager === '') return ', by whom is not known (see the audit log of the API server)'
  return `, by ${manager} (${operation})${at === '0' ? '' : `, ${distance(source, at)} ago`}`
}

function thenText(drifted: Drifted, source: DriftReport): string {
  const { kind, correct_at_ms: at, left, hold_until_ms: until, manager } = drifted
  if (kind !== 'drifted') return ''
  if (at !== '0') return `; set back in ${distance(source, at)}`
  if (left === 'hold') return `; stays for ${distance(source, until)}, as its annotation asks`
  if (left === 'fight') return `; stays: ${manager} has changed it back three times`
  if (left === 'added') return '; stays: the source does not set added_by'
  return left === 'paused' ? '; stays while the source is paused' : `; stays: drift mode ${source.drift_mode ?? ''}`
}

/** Distance of a time from now, by the agent's clock up to its report, and by kas' clock since then. */
function distance({ at_ms: reported = '0', age_ms: age = 0 }: DriftReport, then: string): string {
  const seconds = Math.round(Math.abs(Number(then) - Number(reported) - age) / 1000)
  if (seconds < 120) return `${seconds}s`
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`
}
