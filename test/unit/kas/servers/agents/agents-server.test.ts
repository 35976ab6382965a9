import t from 'tap'
import { agentMethodTypes } from '../../../../../src/kas/servers/agents/agents-server.ts'
import { connectMethod } from '../../../../../src/proto/reverse-tunnel.ts'
import { anyRate } from '../../../../support/method-rate.ts'

t.test('each method that is served has its type in the metrics, no other has one', (t) => {
  const serve = async () => undefined
  t.strictSame(agentMethodTypes({}), { [connectMethod]: 'bidi_stream' })
  t.strictSame(
    agentMethodTypes({
      '/a.B/Stream': { type: 'server_stream', patient: true, rate: anyRate, serve },
      '/a.B/One': { type: 'unary', patient: false, rate: anyRate, serve },
    }),
    { [connectMethod]: 'bidi_stream', '/a.B/Stream': 'server_stream', '/a.B/One': 'unary' },
  )
  t.end()
})
