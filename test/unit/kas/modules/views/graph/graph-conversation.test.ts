import t from 'tap'
import type { AgentId } from '../../../../../../src/call/call.ts'
import type { Viewer } from '../../../../../../src/kas/modules/views/feed/view.ts'
import { GraphConversation } from '../../../../../../src/kas/modules/views/graph/graph-conversation.ts'
import type { OwnSocket } from '../../../../../../src/kas/own-endpoint.ts'
import { ByteBudget, noMeter } from '../../../../../../src/lib/byte-budget.ts'
import { KasError } from '../../../../../../src/lib/errors.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

const maxBytes = 4 * 1024 * 1024

/** A client that has asked for a view, and takes nothing before `take`. */
async function asked() {
  const budget = new ByteBudget(maxBytes)
  const sent: PromiseWithResolvers<void>[] = []
  const opened = Promise.withResolvers<Viewer>()
  const view = { page: () => undefined, reopen: () => undefined, close: () => undefined }
  const feeds = {
    open: (_agentId: AgentId, _wanted: unknown, viewer: Viewer) => {
      opened.resolve(viewer)
      return view
    },
  }
  const socket: OwnSocket = {
    sent: () => {
      const message = Promise.withResolvers<void>()
      sent.push(message)
      return message.promise
    },
    send: () => undefined,
    pause: () => undefined,
    resume: () => undefined,
    close: () => undefined,
    memory: noMeter,
  }
  const conversation = new GraphConversation(
    { feeds, budget, clock: new ManualClock(), onClosed: () => undefined },
    { agentId: 42n as AgentId, caller: { key: 'ada' }, impersonation: undefined, socket, failed: () => undefined },
    { requestMs: 10_000 },
  )
  conversation.message(Buffer.from('{"queries":[]}'), false)
  return { budget, sent, conversation, viewer: await opened.promise }
}

/** more rows than fit into one message */
const large = Array.from({ length: 3000 }, (_, id) => [id, '', 'v1', 'pods', 'shop', `a-pod-with-a-name-${id}`])

t.test('what ends while its client takes a message keeps nothing of the rest', async (t) => {
  const { budget, sent, conversation, viewer } = await asked()
  const update = viewer.update(Buffer.from(JSON.stringify({ seq: 1, svx: large })))
  while (sent.length === 0) await new Promise(setImmediate)
  conversation.withdraw(new KasError({ code: 'USER_UNAUTHORIZED' }))
  sent[0]?.resolve()
  await update
  t.equal(sent.length, 1)
  budget.take(maxBytes)
})

t.test('what has ended takes no update that was on its way', async (t) => {
  const { budget, sent, conversation, viewer } = await asked()
  const update = viewer.update(Buffer.from(JSON.stringify({ seq: 1, svx: large })))
  conversation.withdraw(new KasError({ code: 'USER_UNAUTHORIZED' }))
  await update
  t.equal(sent.length, 0)
  budget.take(maxBytes)
})
