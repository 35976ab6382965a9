import { Resolver } from 'node:dns/promises'
import t, { type Test } from 'tap'
import { systemClock } from '../../../src/lib/clock.ts'
import { DnsDiscovery } from '../../../src/membership/discovery/dns.ts'
import type { SearchList } from '../../../src/membership/discovery/search-list.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { discovered, finds } from './discovered.ts'
import { discoverySuite, type Fault } from './discovery-suite.ts'
import { type DnsAnswer, type DnsQuestion, DnsServer } from './dns-server.ts'

const host = 'kas.gitlab.svc'
const noSearch: SearchList = { domains: [], ndots: 1 }

async function begin(t: Test, options: { search?: SearchList } = {}) {
  const server = await DnsServer.start(t)
  const { log, lines } = capturedLog()
  const resolver = () => {
    const one = new Resolver({ timeout: 200, tries: 1 })
    one.setServers([server.address])
    return one
  }
  const searchList = async () => options.search ?? noSearch
  const source = new DnsDiscovery(
    { log, clock: systemClock, random: () => 0.5, resolver, searchList },
    { host, port: 8156, intervalMs: 100, timeoutMs: 2_000, firstRetryMs: 50 },
  )
  t.teardown(() => source.stop())
  return { server, source, lines }
}

/** Answers A and AAAA for one name only. */
const of =
  (answers: Partial<Record<DnsQuestion['type'], DnsAnswer>>, name = host) =>
  (question: DnsQuestion): DnsAnswer =>
    question.name === name ? (answers[question.type] ?? []) : 'nxdomain'

discoverySuite(t, async (t) => {
  const { server, source } = await begin(t)
  let hosts: readonly string[] = []
  let fault: Fault | undefined
  server.answer = ({ type }) => {
    if (fault) return fault === 'failure' ? 'servfail' : 'silence'
    return type === 'A' ? hosts : []
  }
  return {
    source,
    set: (next) => {
      hosts = next
    },
    inject: (next) => {
      fault = next
    },
    assertAtRest: () => undefined, // a cancelled resolver keeps nothing open
  }
})

t.test('both families', async (t) => {
  const { server, source } = await begin(t)
  server.answer = of({ A: ['10.0.0.7'], AAAA: ['fd00::1', 'fd00:0:0::1'] })
  await source.start()
  t.strictSame(source.current().addresses, ['10.0.0.7:8156', '[fd00::1]:8156'])
})

t.test('a name that does not exist any more is an answer', async (t) => {
  const { server, source } = await begin(t)
  server.answer = of({ A: ['10.0.0.7'] })
  await source.start()
  server.answer = () => 'nxdomain'
  t.strictSame(await discovered(source, finds()), { addresses: [], stale: false, answered: true })
})

t.test('one family fails', async (t) => {
  await t.test('that never answered: the other counts, nothing is stale', async (t) => {
    const { server, source } = await begin(t)
    server.answer = of({ A: ['10.0.0.7'], AAAA: 'servfail' })
    await source.start()
    t.strictSame(source.current(), {
      addresses: ['10.0.0.7:8156'],
      stale: false,
      answered: true,
      error: 'AAAA: ESERVFAIL',
    })
  })

  await t.test('that had answered: its addresses stay, stale', async (t) => {
    const { server, source } = await begin(t)
    server.answer = of({ A: ['10.0.0.7'], AAAA: ['fd00::1'] })
    await source.start()
    server.answer = of({ A: ['10.0.0.8'], AAAA: 'silence' })
    const { addresses, error } = await discovered(source, ({ stale }) => stale)
    t.strictSame(addresses, ['10.0.0.8:8156', '[fd00::1]:8156'])
    t.match(error, /^AAAA: E?TIMEOUT/)
  })

  await t.test('beside one without addresses: no answer', async (t) => {
    const { server, source } = await begin(t)
    server.answer = of({ A: [], AAAA: 'servfail' })
    await source.start()
    t.match(source.current(), { answered: false, error: 'AAAA: ESERVFAIL' })
  })
})

t.test('the search list', async (t) => {
  const search = { domains: ['gitlab.svc.cluster.local', 'svc.cluster.local', 'cluster.local'], ndots: 5 }

  await t.test('makes a short name full', async (t) => {
    const { server, source } = await begin(t, { search })
    server.answer = of({ A: ['10.0.0.7'] }, `${host}.cluster.local`)
    await source.start()
    t.strictSame(source.current().addresses, ['10.0.0.7:8156'])
    t.notOk(
      server.questions.some(({ name }) => name === host),
      'it ends with the first that exists',
    )
  })

  await t.test('a failure on the way is one if nothing follows', async (t) => {
    const { server, source } = await begin(t, { search })
    server.answer = ({ name }) => (name === `${host}.svc.cluster.local` ? 'servfail' : 'nxdomain')
    await source.start()
    t.match(source.current(), { answered: false, error: /A: ESERVFAIL; AAAA: ESERVFAIL/ })
    server.answer = ({ name, type }) =>
      name === `${host}.svc.cluster.local` ? 'servfail' : name === host && type === 'A' ? ['10.0.0.7'] : 'nxdomain'
    await discovered(source, finds('10.0.0.7:8156'))
  })
})

t.test('failing is told once, and its end', async (t) => {
  const { server, source, lines } = await begin(t)
  server.answer = of({ A: 'servfail', AAAA: 'servfail' })
  await source.start()
  await server.asked(6)
  server.answer = of({ A: ['10.0.0.7'] })
  await discovered(source, finds('10.0.0.7:8156'))
  t.strictSame(
    lines.map(({ level, msg }) => [level, msg]),
    [
      ['warn', 'Discovery fails, what it found before is kept'],
      ['info', 'Discovery answers'],
    ],
  )
})
