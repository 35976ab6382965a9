import { parentPort, workerData } from 'node:worker_threads'
import { JudgedNow } from '../../../../../../src/agentk/health/custom/judged-now.ts'
import type {
  ThreadAnswer,
  ThreadRequest,
  ThreadSettings,
} from '../../../../../../src/agentk/modules/views/thread/thread-messages.ts'

/** Does what the text of a request names; sends any other text back. */
const kept: unknown[] = []
const settings = workerData as ThreadSettings
let unusable = ''
const answer = (message: ThreadAnswer) => parentPort?.postMessage(message)
parentPort?.on('message', (request: ThreadRequest) => {
  if (request.kind === 'ping') return answer({ kind: 'pong' })
  if (request.kind === 'sent') {
    const facts = { kinds: request.bytes, objects: request.stream, state: 'live' as const, rulesAside: [] }
    return answer({ kind: 'facts', facts })
  }
  if (request.kind === 'unusable') {
    unusable = request.problem
    return
  }
  if (request.kind !== 'request') return
  const { stream, bytes } = request
  const text = Buffer.from(bytes).toString()
  if (text === 'hang') for (;;);
  if (text === 'slow rule') {
    const judged = new JudgedNow(settings.judged)
    judged.during('ConfigMap', 'shop/fast', () => judged.at(0))
    judged.during('ConfigMap', 'shop/slow', () => {
      judged.at(2)
      for (;;);
    })
  }
  if (text === 'many rules') {
    const judged = new JudgedNow(settings.judged)
    for (;;) judged.during('ConfigMap', 'shop/fast', () => judged.at(0))
  }
  if (text === 'kinds') {
    const { users, unread } = settings.rules
    const kinds = { used: users.map(({ kind }) => kind), aside: unread.filter(({ isAside }) => isAside) }
    return answer({ kind: 'response', stream, bytes: Buffer.from(JSON.stringify(kinds)) })
  }
  if (text === 'fill') for (;;) kept.push({ kept: [kept.length] })
  if (text === 'exit') process.exit(0)
  if (text === 'keeps priority') answer({ kind: 'priority', refused: 'EACCES' })
  if (text === 'rules') answer({ kind: 'rules', good: [{ kind: 'Pod', let: {}, rules: [], tests: [] }] })
  else if (text === 'unusable') answer({ kind: 'response', stream, bytes: Buffer.from(unusable) })
  else if (text === 'fail') answer({ kind: 'failed', stream, error: { code: 'INVALID_MESSAGE', detail: 'no' } })
  else answer({ kind: 'response', stream, bytes })
})
