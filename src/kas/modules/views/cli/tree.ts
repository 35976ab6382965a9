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

/** Returns the text for an empty tree, which an agent without permissions or a misspelt namespace also causes. */
function nothingText({ namespaces }: Asked): string {
  if (namespaces) return `nothing is found in ${namespaces.join(', ')}`
  return 'nothing is found that you may list and agentk follows: kas views role prints the role that agentk lacks'
}

export function treeQuery({ query }: Asked): Query {
  return { view: query.objects ? 'object' : 'tree', ...query, limit: rootLimit }
}

/**
 * True if the row's children are shown. A bundle stands for many objects: among roots it is opened only if some are
 * unhealthy.
 */
export function opens(row: Row): boolean {
  const { p = '', w = '' } = row
  if (isBundle(row)) return !isWell(w) && (p === '' || /^[go]:/.test(p))
  return !isInBundle(row) || !isWholeWell(row)
}

export function treeOptions(asked: Asked): TreeOptions {
  const { scope, objects } = asked.query
  const [namespace, ...others] = asked.namespaces ?? []
  return {
    // in a view of the whole cluster, insignificant objects are only counted
    folds: !scope && !objects,
    isAsked: (row) => isNamed(asked, row),
    ...(namespace !== undefined && others.length === 0 ? { namespace } : {}),
  }
}

/**
 * Sums up the tree above it if the tree is longer than the screen, or if it shows the whole cluster. It leaves lines
 * for the pager's prompt, or for the tree.
 */
function aboveText(text: string, model: ShownView, layout: Layout, { isWatching, isWhole }: Above): string {
  const { rows = Number.POSITIVE_INFINITY } = layout
  const isLong = text.split('\n').length > rows
  const room = isWatching ? Math.floor(rows / 2) : rows - 2
  return isLong || isWhole ? summaryText(model, layout, isLong ? room : 1) : ''
}

interface Above {
  readonly isWatching: boolean
  /** the whole cluster is requested */
  readonly isWhole: boolean
}
