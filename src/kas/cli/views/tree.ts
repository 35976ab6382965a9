import type { Row } from '../../../proto/views-json.ts'
import { printView } from './print-view.ts'
import type { ShownView } from './shown-view.ts'
import { treeText } from './tree-text.ts'
import { scopeOf, type ViewsCommand } from './views-command.ts'

const rootLimit = 100
/** As deep as JSON is nested. */
const maxDepth = 64

/** `kas tree` */
export const tree: ViewsCommand = {
  usage: 'tree [-n NAMESPACE | --environment PROJECT/SLUG | --application NAME] [--watch] [-o json]',
  summary: 'shows what runs in a cluster, who belongs to whom, and how it fares',
  options: {},
  positionals: 0,
  run(context) {
    const scope = scopeOf(context.values)
    return printView(context, {
      query: { view: 'tree', ...scope, limit: rootLimit },
      opens: ({ u }) => !u.startsWith('b:'), // a bundle is one because there are many
      text: (model, paint) => treeText(model, paint, !scope.scope),
      json: (model) => ({ state: model.state, counts: model.counts, rows: nested(model, '', new Set()) }),
    })
  },
}

type NestedRow = Row & { readonly children?: readonly NestedRow[]; readonly more?: number }

/**
 * @param stands - nodes that stand there already: an agent may say anything, circles too
 * @param depth - of `node`; what is deeper than any tree of owners is left out
 */
function nested(model: ShownView, node: string, stands: Set<string>, depth = 0): NestedRow[] {
  const rows = model.children(node).filter(({ u }) => !stands.has(u))
  for (const { u } of rows) stands.add(u)
  return rows.map((row) => {
    const page = depth < maxDepth ? model.pages.get(row.u) : undefined
    return page ? { ...row, children: nested(model, row.u, stands, depth + 1), more: page.more } : row
  })
}
