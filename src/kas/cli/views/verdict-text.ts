import { printable } from '../../../lib/printable.ts'
import type { ArgoWord, Row } from '../../../proto/views-json.ts'

interface Look {
  readonly shape: string
  /** ANSI */
  readonly colour: number
  readonly word: string
}

/** Shape and word beside the colour: not everybody sees that, and a log has none. */
const looks: Readonly<Record<ArgoWord, Look>> = {
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
    const { shape, colour, word: said } = looks[word] ?? looks['']
    return this.#in(colour, said === '' ? shape : `${shape} ${said}`)
  }

  shape(word: ArgoWord): string {
    const { shape, colour } = looks[word] ?? looks['']
    return this.#in(colour, shape)
  }

  faint(text: string): string {
    return text === '' ? '' : this.#in(90, text)
  }

  #in(colour: number, text: string): string {
    return this.#isColoured ? `\u001b[${colour}m${text}\u001b[0m` : text
  }
}

/** Verdicts that are worth a reason. */
const quiet: ReadonlySet<ArgoWord> = new Set(['', 'Healthy'])

/** Why it is not healthy, and what kstatus says where that differs. */
export function whyOf({ h = ['', 'Current'], why = ['', ''] }: Row): string {
  const [argo, kstatus] = h
  const [text, kstatusText] = why
  const own = quiet.has(argo) ? '' : text
  const other = kstatus === 'Failed' || kstatus === 'Unknown' ? `kstatus: ${kstatus} ${kstatusText}`.trim() : ''
  const said = argo === 'Degraded' || argo === 'Unknown' ? own : [own, other].filter(Boolean).join('; ')
  return printable(said)
}

/** `3s`, `5m`, `2h`, `12d` */
export function ageText(created: number | undefined, now: number): string {
  if (created === undefined) return ''
  const seconds = Math.max(0, Math.round((now - created) / 1000))
  if (seconds < 120) return `${seconds}s`
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)}h`
  return `${Math.floor(seconds / 86_400)}d`
}
