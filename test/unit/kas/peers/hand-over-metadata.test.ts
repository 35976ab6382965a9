import t from 'tap'
import type { AgentId, Metadata } from '../../../../src/call/call.ts'
import { readHandOver, writeHandOver } from '../../../../src/kas/peers/hand-over-metadata.ts'

const handOver = {
  agentId: 42n as AgentId,
  waitMs: 20,
  eager: true,
  caller: { key: 'project-3', userKey: 'user-7' },
  isWatch: true,
  isLog: false,
}

t.test('what an entry says of a call is read as it was written', async (t) => {
  t.strictSame(readHandOver(writeHandOver(handOver, {})), handOver)
})

t.test('a hand-over that lacks what each has is refused, by the name of the key', async (t) => {
  for (const key of ['kas-agent-id', 'kas-wait', 'kas-caller']) {
    const { [key]: _, ...rest }: Metadata = writeHandOver(handOver, {})
    t.throws(() => readHandOver(rest), {
      code: 'INVALID_MESSAGE',
      message: `metadata ${key} is missing or malformed`,
    })
  }
})
