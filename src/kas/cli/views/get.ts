import { printable } from '../../../lib/printable.ts'
import type { Row } from '../../../proto/views-json.ts'
import { UsageError } from '../command.ts'
import { textTable } from '../text-table.ts'
import { eventNames, printEvents } from './events.ts'
import { printView } from './print-view.ts'
import type { ShownView } from './shown-view.ts'
import { nothingFound } from './tree-text.ts'
import { ageText, type Paint, whyOf } from './verdict-text.ts'
import { scopeOf, type ViewsCommand } from './views-command.ts'

const listLimit = 500

/** `kas get` */
export const get: ViewsCommand = {
  usage: 'get KIND[,KIND...] [-n NAMESPACE] [--environment PROJECT/SLUG] [--application NAME] [--watch] [-o json]',
  summary:
    'lists objects with their health, the worst first; KIND as in apps/Deployment or Pod; get events: the latest',
  options: {},
  positionals: 1,
  run(context) {
    const [names] = context.positionals
    if (names === undefined) throw new UsageError('KIND is missing, such as Pod or apps/Deployment')
    const kinds = names.split(',').filter(Boolean)
    if (kinds.length === 1 && eventNames.has(kinds[0] as string)) return printEvents(context)
    return printView(context, {
      query: { view: 'list', ...scopeOf(context.values), filter: { kinds }, limit: listLimit },
      opens: () => false,
      text: listText,
      json: (model) => ({ state: model.state, counts: model.counts, rows: model.children('') }),
    })
  },
}

function listText(model: ShownView, paint: Paint): string {
  const rows = model.children('')
  if (rows.length === 0) return nothingFound
  const table = textTable([
    ['NAMESPACE', 'KIND', 'NAME', 'FACTS', 'AGE', 'WHY'],
    ...rows.map((row) => cells(row, model.at)),
  ])
  const [head = '', ...lines] = table.trimEnd().split('\n')
  const shown = lines.map((line, index) => `${paint.shape(rows[index]?.h?.[0] ?? '')} ${line}\n`)
  const { more = 0 } = model.pages.get('') ?? {}
  return `  ${paint.faint(head)}\n${shown.join('')}${more > 0 ? paint.faint(`… ${more} more`) : ''}${more > 0 ? '\n' : ''}`
}

function cells(row: Row, now: number): string[] {
  const { ns = '', k, n, f = [], t } = row
  return [ns === '' ? '-' : ns, k, n, f.map(printable).join(', '), ageText(t, now), whyOf(row)]
}
