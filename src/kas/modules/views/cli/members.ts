import { withDeadline } from '../../../../lib/deadline.ts'
import type { EventRow, Scope } from '../../../../proto/views-json.ts'
import { viewsBounds } from '../../../../proto/views-json.ts'
import { endpointOf } from '../../../command/endpoint.ts'
import { problemsOf } from './problems.ts'
import { withSource } from './sources.ts'
import { ViewClient } from './view-client.ts'
import type { ViewsContext } from './views-command.ts'

/** ms */
const answerMs = 30_000

/** What is of an environment or an application, as it is once it is known whole. */
export interface Members {
  readonly namespaces: ReadonlySet<string>
  /** why there are none, or not all of them; sentences */
  readonly problems: readonly string[]
  /** it is about one of them */
  has(event: EventRow): boolean
}

/** @throws ViewRefused, BadAnswer, Error: there is no answer in time */
export async function membersOf(context: ViewsContext, scope: Scope): Promise<Members> {
  const endpoint = await endpointOf(context.values, context.io.env)
  const asked = (await withSource(scope, endpoint)) ?? scope
  const query = { view: 'list', scope: asked, limit: viewsBounds.maxLimit } as const
  let found: Members | undefined
  const client = new ViewClient(context, endpoint, {
    query,
    opens: () => false,
    onChange: (model, isWhole) => {
      if (!isWhole) return false
      const rows = model.children('')
      const uids = new Set(rows.map(({ u }) => u))
      const { more = 0 } = model.pages.get('') ?? {}
      const tooMany =
        more > 0 ? [`it has ${rows.length + more} objects, too many to list their events: -n narrows it`] : []
      found = {
        namespaces: new Set(rows.flatMap(({ ns }) => ns ?? [])),
        problems: [...problemsOf(model, { query: { scope }, words: [], names: [] }), ...tooMany],
        has: ({ about: [, , uid] }) => uids.has(uid),
      }
      return true
    },
  })
  await withDeadline({ ms: answerMs, clock: context.clock }, (signal) => client.run(signal))
  if (!found) throw new Error(`no whole answer within ${answerMs / 1000} s`)
  return found
}
