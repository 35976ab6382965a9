import type { Query, Row } from '../../../../proto/views-json.ts'
import { type Asked, inContext, readAsked } from './asked.ts'
import { isNamed } from './link-text.ts'
import { printView } from './print-view.ts'
import { isBundle, type ShownView } from './shown-view.ts'
import { type TreeOptions, treeText } from './tree-text.ts'
import { doneOrFailed, viewsCommand } from './views-command.ts'

const rootLimit = 100
/** As deep as JSON is nested. */
const maxDepth = 64

/** `kas tree` */
export const tree = viewsCommand({
  usage: 'tree [KIND | KIND/NAME...] [-n NAMESPACE | -A] [-l SELECTOR] [--watch] [-o json|yaml]',
  summary: 'shows what runs in a cluster, who belongs to whom, its health, and the cause',
  help: doneOrFailed,
  options: {},
  outputs: ['json', 'yaml'],
  run(context) {
    const asked = readAsked(context.positionals, inContext(context.values, context.namespace))
    return printView(context, {
      query: treeQuery(asked),
      asked,
      opens,
      text: (model, layout, above) => treeText(model, layout, { ...treeOptions(asked), above }),
      namespaces: asked.query.objects ? [] : (asked.query.scope?.namespaces ?? []),
      json: (model) => ({ state: model.state, counts: model.counts, rows: nested(model, '', new Set()) }),
      nothing: 'nothing is found',
    })
  },
})

export function treeQuery({ query }: Asked): Query {
  return { view: query.objects ? 'object' : 'tree', ...query, limit: rootLimit }
}

/** A bundle is one because there are many. */
export const opens = (row: Row) => !isBundle(row)

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
