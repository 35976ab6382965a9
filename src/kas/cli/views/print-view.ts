import { printable, printableJson } from '../../../lib/printable.ts'
import type { Query, Row } from '../../../proto/views-json.ts'
import { endpointOf } from './endpoint.ts'
import { Screen } from './screen.ts'
import { type ShownView, showView } from './shown-view.ts'
import { stateText } from './tree-text.ts'
import { Paint } from './verdict-text.ts'
import { isColoured, type ViewsContext } from './views-command.ts'

/** A cluster whose objects are still being listed says so; so does an agent that connects. ms */
const answerMs = 30_000

export interface PrintedView {
  readonly query: Query
  readonly opens: (row: Row) => boolean
  /** in place of children: pages that are asked for from the start, whole */
  readonly nodes?: readonly string[]
  readonly text: (model: ShownView, paint: Paint) => string
  readonly json: (model: ShownView) => unknown
  /** of a whole view: what of it cannot be shown; undefined: nothing */
  readonly problem?: (model: ShownView) => string | undefined
}

/**
 * Prints a view once it is whole, or with `--watch` each change of it.
 *
 * @returns the exit code: 1 with a problem, too. @throws ViewRefused
 */
export async function printView(context: ViewsContext, printed: PrintedView): Promise<number> {
  const { query, opens, nodes, text, json, problem } = printed
  const { values, io } = context
  const endpoint = await endpointOf(values, io.env)
  const paint = new Paint(isColoured(io))
  const screen = new Screen(io.stdout)
  const isWatching = values.watch === true
  const tooLate = new AbortController()
  const cancel = isWatching ? () => {} : context.clock.after(answerMs, () => tooLate.abort())
  const show = (model: ShownView) =>
    screen.show(
      values.output === 'json'
        ? `${printableJson(json(model), isWatching ? undefined : 2)}\n`
        : stateText(model, paint) + text(model, paint),
    )
  let lost = 'the cluster is still being listed'
  let isDone = false
  let unshown: string | undefined
  await showView(context, endpoint, {
    query,
    opens,
    nodes,
    onChange: (model, isWhole) => {
      const before = unshown
      if (isWhole) unshown = problem?.(model)
      if (unshown !== undefined && unshown !== before) io.stderr.write(`kas: ${printable(unshown)}\n`)
      if (isWhole || isWatching) show(model)
      isDone = isWhole && !isWatching
      return isDone
    },
    onLost: (why) => {
      lost = why
      if (isWatching) io.stderr.write(`kas: ${printable(why)}; what is shown may be old\n`)
    },
    signal: tooLate.signal,
  }).finally(cancel)
  if (isDone) return unshown === undefined ? 0 : 1
  io.stderr.write(`kas: no whole answer within ${answerMs / 1000} s: ${printable(lost)}\n`)
  return 1
}
