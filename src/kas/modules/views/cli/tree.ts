import type { Query, Row } from '../../../../proto/views-json.ts'
import { type Asked, addContextNamespace, readAsked } from './asked.ts'
import { isNamed } from './link-text.ts'
import { objectView, treeItems } from './output/program-view.ts'
import { printView } from './print-view.ts'
import { isBundle, isInBundle, rootCounts, type ShownView } from './shown-view.ts'
import { summaryText } from './tree-summary.ts'
import { type TreeOptions, treeText } from './tree-text.ts'
import { isWell, isWholeWell, type Layout } from './verdict-text.ts'
import {
  doneOrFailed,
  nothingWrong,
  problemsHelp,
  problemsOption,
  viewsCommand,
  watchHelp,
  watchOption,
} from './views-command.ts'

const rootLimit = 100

/** `kas tree` */
export const tree = viewsCommand({
  usage: 'tree [KIND | KIND/NAME...] [-n NAMESPACE | -A] [-l SELECTOR] [--problems] [--watch] [--no-pager] [-o FORMAT]',
  summary: 'shows what runs in a cluster, who belongs to whom, its health, and the cause',
  help: `${problemsHelp}${watchHelp}  --no-pager                          do not pipe what a screen has no room for into $KAS_PAGER (default: less -FRX)
${doneOrFailed}`,
  options: { ...problemsOption, ...watchOption, 'no-pager': { type: 'boolean' } },
  outputs: ['table', 'json', 'yaml'],
  run(context) {
    const asked = readAsked(context.positionals, addContextNamespace(context.values, context.namespace))
    const areNamed = asked.names.length > 0
    const isWatching = context.values.watch === true
    return printView(context, {
      query: treeQuery(asked),
      asked,
      opens,
      text: (model, layout, above) => {
        const options = treeOptions(asked)
        const text = treeText(model, layout, { ...options, above })
        const isWhole = options.folds === true && !asked.query.filter
        return `${areNamed ? '' : aboveText(text, model, layout, { isWatching, isWhole })}${text}`
      },
      isPaged: context.values['no-pager'] !== true,
      namespaces: asked.query.objects ? [] : (asked.query.scope?.namespaces ?? []),
      program: objectView({ items: treeItems, counts: rootCounts }),
      nothing: asked.query.filter ? nothingWrong : nothingText(asked),
    })
  },
})

/** An agent without rights, and a namespace that is mistyped, leave a tree empty too. */
function nothingText({ namespaces }: Asked): string {
  if (namespaces) return `nothing is found in ${namespaces.join(', ')}`
  return 'nothing is found that you may list and agentk follows: kas views role prints the role that agentk lacks'
}

export function treeQuery({ query }: Asked): Query {
  return { view: query.objects ? 'object' : 'tree', ...query, limit: rootLimit }
}

/** A bundle is one because there are many: one of roots is opened where some are not well, for the sake of these. */
export function opens(row: Row): boolean {
  const { p = '', w = '' } = row
  if (isBundle(row)) return !isWell(w) && (p === '' || /^[go]:/.test(p))
  return !isInBundle(row) || !isWholeWell(row)
}

export function treeOptions(asked: Asked): TreeOptions {
  const { scope, objects } = asked.query
  const [namespace, ...others] = asked.namespaces ?? []
  return {
    // of all there is, what says nothing is counted
    folds: !scope && !objects,
    isAsked: (row) => isNamed(asked, row),
    ...(namespace !== undefined && others.length === 0 ? { namespace } : {}),
  }
}

/**
 * Sums up the tree: where not all of it has room on the screen with its causes, some lines left for a pager's own,
 * or for the tree; of all that there is, always.
 */
function aboveText(text: string, model: ShownView, layout: Layout, { isWatching, isWhole }: Above): string {
  const { rows = Number.POSITIVE_INFINITY } = layout
  const isLong = text.split('\n').length > rows
  const room = isWatching ? Math.floor(rows / 2) : rows - 2
  return isLong || isWhole ? summaryText(model, layout, isLong ? room : 1) : ''
}

interface Above {
  readonly isWatching: boolean
  /** all that there is is asked for */
  readonly isWhole: boolean
}
