import t from 'tap'
import { createLogger } from '../../../src/lib/log.ts'

t.test('one JSON object a line, with the fields that operators know', async (t) => {
  const lines: string[] = []
  const log = createLogger({ level: 'info', destination: { write: (line) => void lines.push(line) } })
  log.debug('not told')
  log.child({ mod_name: 'm' }).warn({ agent_id: '42', error: new Error('cause') }, 'A sentence')
  t.equal(lines.length, 1)
  const line = JSON.parse(lines[0] ?? '') as Record<string, unknown>
  t.match(line, { level: 'warn', mod_name: 'm', agent_id: '42', msg: 'A sentence', error: { message: 'cause' } })
  t.match(line.time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  t.notOk('pid' in line || 'hostname' in line)
})
