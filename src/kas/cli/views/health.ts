import { printable, printableJson } from '../../../lib/printable.ts'
import { type ArgoWord, argoWords } from '../../../proto/views-json.ts'
import { BadAnswer } from '../bad-answer.ts'
import { type CliValues, textOption, UsageError } from '../command.ts'
import { endpointOf } from './endpoint.ts'
import { degraded, HeldCode, progressing, unknown } from './held-code.ts'
import { type ShownView, showView } from './shown-view.ts'
import { stateText, treeText } from './tree-text.ts'
import { Paint } from './verdict-text.ts'
import { isColoured, scopeOf, type ViewsCommand } from './views-command.ts'

/**
 * What a shell is told. Suspended is as somebody wanted it. Where nothing has a verdict nothing is known: each namespace
 * has a ConfigMap and a ServiceAccount before anything is deployed there.
 */
const exitCodes: Readonly<Record<ArgoWord, number>> = {
  '': unknown,
  Healthy: 0,
  Suspended: 0,
  Progressing: progressing,
  Missing: degraded,
  Degraded: degraded,
  Unknown: unknown,
}
/** Without `--wait` so long for an agent that connects, or lists. ms */
const lookMs = 20_000
/** Of an application that seems to be empty. */
const membersText =
  'objects outside of its namespace are of an application where its Kustomization, HelmRelease or Application lists them, or where -n names their namespace'
const maxWaitMs = 24 * 3_600_000
const rootLimit = 20

/** `kas health` */
export const health: ViewsCommand = {
  usage: 'health [--wait TIME] [-n NAMESPACE | --environment PROJECT/SLUG | --application NAME] [-o json]',
  summary:
    'says how it fares: exit code 0 healthy or suspended for 5 s, 3 progressing, 4 degraded, 5 unknown or nothing there that has a verdict',
  options: { wait: { type: 'string' } },
  positionals: 0,
  async run(context) {
    const { values, io, clock } = context
    const waitMs = waitOf(values)
    const { scope } = scopeOf(values)
    const endpoint = await endpointOf(values, io.env)
    const late = new AbortController()
    const cancelLate = clock.after(waitMs ?? lookMs, () => late.abort())
    const held = new HeldCode({ clock, onHeld: () => late.abort() })
    let shown: ShownView | undefined
    try {
      await showView(context, endpoint, {
        query: { view: 'tree', ...(scope ? { scope } : {}), limit: rootLimit },
        opens: () => false,
        onChange: (model, isWhole) => {
          shown = model
          const code = isWhole ? exitCode(model) : unknown
          held.now(code)
          return waitMs === undefined && isWhole && code !== 0
        },
        onLost: (why) => {
          shown = undefined
          held.now(unknown) // what it said is not known to hold any more
          io.stderr.write(`kas: ${printable(why)}\n`)
        },
        signal: late.signal,
      })
    } catch (error) {
      if (!(error instanceof BadAnswer)) throw error
      io.stderr.write(`kas health: ${error.message}\n`)
      return unknown
    } finally {
      cancelLate()
      held.end()
    }
    if (scope?.application && !scope.namespaces && shown && worstOf(shown) === undefined) {
      io.stderr.write(`kas: ${membersText}\n`)
    }
    io.stdout.write(values.output === 'json' ? jsonText(shown) : plainText(shown, new Paint(isColoured(io))))
    return held.code
  },
}

/** Of the whole: that of its roots, the worst; what is not live now, or has none, is unknown. */
function exitCode(model: ShownView): number {
  const word = worstOf(model)
  return word === undefined || model.state.is !== 'live' ? unknown : exitCodes[word]
}

function worstOf({ counts }: ShownView): ArgoWord | undefined {
  return argoWords.findLast((word) => (counts[word] ?? 0) > 0)
}

function plainText(model: ShownView | undefined, paint: Paint): string {
  if (!model) return 'unknown: no answer\n'
  const word = worstOf(model)
  if (word === undefined) return `${stateText(model, paint)}unknown: nothing is there that you may list\n`
  const counts = argoWords.flatMap((one) => {
    const count = model.counts[one] ?? 0
    return count > 0 ? [`${count} ${one === '' ? 'without a verdict' : one.toLowerCase()}`] : []
  })
  const said = word === '' ? 'unknown: nothing that is there has a verdict' : paint.verdict(word)
  const list = word === '' || exitCodes[word] === 0 ? '' : treeText(model, paint)
  return `${stateText(model, paint)}${said} (${counts.join(', ')})\n${list}`
}

function jsonText(model: ShownView | undefined): string {
  const verdict = model ? (worstOf(model) ?? null) : null
  const told = { verdict, state: model?.state ?? null, counts: model?.counts ?? {}, rows: model?.children('') ?? [] }
  return `${printableJson(told, 2)}\n`
}

/** `5m`, `90s`, `1h`. @throws UsageError */
function waitOf(values: CliValues): number | undefined {
  const text = textOption(values, 'wait')
  if (text === undefined) return undefined
  const [, number = '', unit = ''] = /^(\d{1,6})(s|m|h)$/.exec(text) ?? []
  const ms = Number(number) * ({ s: 1000, m: 60_000, h: 3_600_000 }[unit] ?? 0)
  if (ms > 0 && ms <= maxWaitMs) return ms
  throw new UsageError(`--wait ${text}: allowed is a time such as 90s, 5m or 1h, at most 24h`)
}
