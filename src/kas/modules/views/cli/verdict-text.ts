import { parseKindKey } from '../../../../kubernetes/kind.ts'
import { printable } from '../../../../lib/printable.ts'
import type { ArgoWord, Row } from '../../../../proto/views-json.ts'
import { ageText } from '../../../command/age-text.ts'
import { verdictOf } from './shown-view.ts'

interface Appearance {
  readonly shape: string
  /** ANSI code */
  readonly colour: number
  readonly word: string
}

/** Each verdict has a shape and a word beside its colour: not everybody sees colours, and a log has none. */
const appearances: Readonly<Record<ArgoWord, Appearance>> = {
  '': { shape: '·', colour: 90, word: '' },
  Healthy: { shape: '✓', colour: 32, word: 'healthy' },
  Suspended: { shape: '‖', colour: 36, word: 'suspended' },
  Progressing: { shape: '◐', colour: 33, word: 'progressing' },
  Missing: { shape: '○', colour: 33, word: 'missing' },
  Degraded: { shape: '✗', colour: 31, word: 'degraded' },
  Unknown: { shape: '?', colour: 35, word: 'unknown' },
}

/** Formats verdicts; only a terminal gets colours. */
export class Paint {
  readonly #isColoured: boolean

  constructor(isColoured: boolean) {
    this.#isColoured = isColoured
  }

  /** `✗ degraded` */
  verdict(word: ArgoWord): string {
    const { shape, colour, word: text } = appearances[word] ?? appearances['']
    return this.#in(colour, text === '' ? shape : `${shape} ${text}`)
  }

  shape(word: ArgoWord): string {
    const { shape, colour } = appearances[word] ?? appearances['']
    return this.#in(colour, shape)
  }

  faint(text: string): string {
    return text === '' ? '' : this.#in(90, text)
  }

  #in(colour: number, text: string): string {
    return this.#isColoured ? `\u001b[${colour}m${text}\u001b[0m` : text
  }
}

/** Terminal and time for which texts are made. */
export interface Layout {
  readonly paint: Paint
  /** in ms since 1970, by the agent's clock */
  readonly now: number
  /** of the terminal; infinite: there is no terminal */
  readonly columns: number
  /** of the terminal; undefined: unbounded */
  readonly rows?: number
  /** true: folded objects are shown, too */
  readonly isVerbose: boolean
  /** undefined: tables have heads */
  readonly hasHeaders?: boolean
}

/** True if the verdict calls for no action. */
export function isWell(word: ArgoWord): boolean {
  return word === '' || word === 'Healthy' || word === 'Suspended'
}

/** True if neither the row nor any object below it calls for action. */
export function isWholeWell(row: Row): boolean {
  return isWell(verdictOf(row)) && isWell(row.w ?? '')
}

/** Returns the reason for which the object is not healthy; empty: it is healthy, or there is none. */
export function reasonOf(row: Row): string {
  return verdictOf(row) === 'Healthy' ? '' : printable(row.why?.[2] ?? '')
}

/** Returns the kind: `Deployment`; with its group if that is not of Kubernetes: `example.com/Widget`. */
export function kindText(key: string): string {
  return printable(/^(?:[a-z]+|[a-z.]+\.k8s\.io)\//.test(key) ? parseKindKey(key).kind : key)
}

/**
 * Returns the name of a row: `shop/Deployment/web`; for a row of many objects their number: `450 Pod`.
 *
 * @param namespace - namespace that is left out
 */
export function rowText({ k, n, c = 0, ns = '' }: Row, namespace = ''): string {
  const name = n === '' ? `${c} ${kindText(k)}` : `${kindText(k)}/${n}`
  return printable(`${ns === '' || ns === namespace ? '' : `${ns}/`}${name}`)
}

/** Returns the age of a cause: `4m`; `≥4m` if it may have begun before it was first seen. */
export function sinceAge({ z }: Row, now: number): string {
  return z?.since === undefined ? '' : `${z.atLeast ? '≥' : ''}${ageText(z.since, now)}`
}

/** Returns `since 14:02 (4m)` or `≥ 4m`. */
export function sinceText({ since, atLeast }: { since?: number; atLeast?: boolean }, now: number): string {
  if (since === undefined) return ''
  const age = ageText(since, now)
  return atLeast ? `≥ ${age}` : `since ${clockText(since, now)} (${age})`
}

/** Returns the time in the local time zone: `14:02`; with the date if that is not today. */
export function clockText(at: number, now: number): string {
  const [then, today] = [new Date(at), new Date(now)]
  if (Number.isNaN(then.getTime())) return ''
  const two = (number: number) => String(number).padStart(2, '0')
  const time = `${two(then.getHours())}:${two(then.getMinutes())}`
  const day = `${then.getFullYear()}-${two(then.getMonth() + 1)}-${two(then.getDate())}`
  return then.toDateString() === today.toDateString() ? time : `${day} ${time}`
}

export function shapeOf(row: Row, paint: Paint): string {
  return paint.shape(verdictOf(row))
}
