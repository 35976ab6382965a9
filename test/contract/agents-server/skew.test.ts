import t, { type Test } from 'tap'
import { agentId, callThrough, startAgentsServer } from '../../support/agents-server.ts'
import { eventually } from '../../support/eventually.ts'
import { FakePlacement } from '../../support/fake-placement.ts'
import { type Extension, extensions, startSkewRelay, type Withheld } from '../../support/skew-relay.ts'
import { echoMethod, startConnections } from '../agentk/connections-side.ts'

/**
 * Our agentk with our kas, one of them older: each extension is withheld on one side or on both. Without all extensions
 * each side treats the other as a stock one.
 */

const none: readonly Extension[] = []
const olders = [none, ...extensions.map((extension) => [extension]), extensions]
const nameOf = (withheld: readonly Extension[]) =>
  withheld.length === 0 ? 'as it is' : `without ${withheld.join(', ')}`
const echo = { method: echoMethod, safety: 'safe' as const }

async function start(t: Test, withheld: Withheld) {
  const placement = new FakePlacement()
  const side = await startAgentsServer(t, {
    components: { placement },
    options: { hints: { settleMs: 1, spreadMs: 1 } },
  })
  const { port, passed } = await startSkewRelay(t, side.port, withheld)
  const connections = await startConnections(t, `grpc://127.0.0.1:${port}`)
  const idle = () => side.tunnels.counts(agentId, echoMethod).idle
  await eventually(() => idle() >= 2 || Promise.reject(new Error(`${idle()} idle tunnels`)))
  return { ...side, placement, passed, connections, idle }
}

t.jobs = 5 // each pairing has its own server, relay and agentk, and mostly waits

for (const ofAgentk of olders) {
  for (const ofKas of olders) {
    t.test(`agentk ${nameOf(ofAgentk)}, kas ${nameOf(ofKas)}`, { buffered: true }, async (t) => {
      const { delivered, placement, passed, connections, idle } = await start(t, { ofAgentk, ofKas })
      for (let i = 0; i < 5; i++) t.same((await callThrough(delivered, [`${i}`], echo)).messages, [`${i}`])
      const many = Array.from({ length: 40 }, (_, i) => callThrough(delivered, [`${i}`, 'x'], echo))
      t.same(
        (await Promise.all(many)).map(({ messages }) => messages.join()),
        many.map((_, i) => `${i},x`),
        'more than there are idle tunnels',
      )
      placement.change({ home: { name: 'kas-0' }, standby: { name: 'kas-1' } })
      t.same((await callThrough(delivered, ['after'], echo)).messages, ['after'])
      await eventually(() => idle() >= 2 || Promise.reject(new Error('its idle tunnels do not come back')))

      const said = [...passed].join('\n')
      const talks = (extension: Extension) => ![...ofAgentk, ...ofKas].includes(extension)
      t.equal(/^kas-home: kas-0$/m.test(said), talks('home'), 'a home is named if both know of it')
      t.equal(connections.places.home === 'kas-0', talks('home'))
      if (ofKas.includes('reuse')) t.notMatch(said, /^kas-features: reuse/m)
      if (ofKas.includes('ping')) t.notMatch(said, /^kas-ping-interval-ms/m)
    })
  }
}
