import { parseKindKey } from '../../../../kubernetes/kind.ts'
import { printable } from '../../../../lib/printable.ts'
import type { ArgoWord, Row } from '../../../../proto/views-json.ts'
import { ageText } from '../../../command/age-text.ts'
import { verdictOf } from './shown-view.ts'

interface Appearance {
  readonly shape: string
  /** ANSI */
  readonly colour: number
  readonly word: string
}

/** Shape and word beside the colour: not everybody sees that, and a log has none. */
const appearances: Readonly<Record<ArgoWord, Appearance>> = {
  '': { shape: '·', colour: 90, word: '' },
  Healthy: { shape: '✓', colour: 32, word: 'healthy' },
  Suspended: { shape: '‖', colour: 36, word: 'suspended' },
  Progressing: { shape: '◐', colour: 33, word: 'progressing' },
  Missing: { shape: '○', colour: 33, word: 'missing' },
  Degraded: { shape: '✗', colour: 31, word: 'degraded' },
  Unknown: { shape: '?', colour: 35, word: 'unknown' },
}

/** Where words about verdicts go: a terminal takes colours. */
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

/** For what, and when, texts are made. */
export interface Layout {
  readonly paint: Paint
  /** ms since 1970, by the agent's clock */
  readonly now: number
  /** of the terminal; infinite: there is none */
  readonly columns: number
  /** the same; absent: all have room */
  readonly rows?: number
  /** what is folded is shown, too */
  readonly isVerbose: boolean
  /** tables have heads; absent: they have */
  readonly hasHeaders?: boolean
}

/** There is nothing to be done about it. */
export function isWell(word: ArgoWord): boolean {
  return word === '' || word === 'Healthy' || word === 'Suspended'
}

/** Nor is there about what is below it. */
export function isWholeWell(row: Row): boolean {
  return isWell(verdictOf(row)) && isWell(row.w ?? '')
}

/** Why it is not healthy. */
export function reasonOf(row: Row): string {
  return verdictOf(row) === 'Healthy' ? '' : printable(row.why?.[2] ?? '')
}

/** `Deployment`; with its group, if that is none of Kubernetes: `example.com/Widget`. */
export function kindText(key: string): string {
  return printable(/^(?:[a-z]+|[a-z.]+\.k8s\.io)\//.test(key) ? parseKindKey(key).kind : key)
}

/** Returns what a row is of: `shop/Deployment/web`; of many that are one row, how many: `450 Pod`. @param namespace - which goes without saying */
export function rowText({ k, n, c = 0, ns = '' }: Row, namespace = ''): string {
  const name = n === '' ? `${c} ${kindText(k)}` : `${kindText(k)}/${n}`
  return printable(`${ns === '' || ns === namespace ? '' : `${ns}/`}${name}`)
}

/** Of a cause: `4m`; `≥4m` where it may have been so before it was seen first. */
export function sinceAge({ z }: Row, now: number): string {
  return z?.since === undefined ? '' : `${z.atLeast ? '≥' : ''}${ageText(z.since, now)}`
}

/** `since 14:02 (4m)`, `≥ 4m` */
export function sinceText({ since, atLeast }: { since?: number; atLeast?: boolean }, now: number): string {
  if (since === undefined) return ''
  const age = ageText(since, now)
  return atLeast ? `≥ ${age}` : `since ${clockText(since, now)} (${age})`
}

/** Of our own time zone: `14:02`; with the day, if that is another one. */
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
