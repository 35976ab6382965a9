import t from 'tap'
import { maxAgentId, parseAgentId } from '../../../src/call/call.ts'

t.equal(parseAgentId('1'), 1n)
t.equal(parseAgentId('007'), 7n)
t.equal(parseAgentId(String(maxAgentId)), maxAgentId)
for (const text of ['', '0', '-1', '+1', ' 1', '1\n', '1e3', '0x1', String(maxAgentId + 1n), `0${maxAgentId}`]) {
  t.equal(parseAgentId(text), undefined, JSON.stringify(text))
}
