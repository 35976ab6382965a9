import t, { type Test } from 'tap'
import { systemClock } from '../../../src/lib/clock.ts'
import { type Lookup, lookupBySystem, StaticDiscovery } from '../../../src/membership/discovery/static.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { discovered, finds } from './discovered.ts'
import { discoverySuite, type Fault } from './discovery-suite.ts'

function begin(t: Test, members: readonly string[], lookup: Lookup) {
  const source = new StaticDiscovery(
    { log: capturedLog().log, clock: systemClock, random: () => 0.5, lookup },
    { members, intervalMs: 50, timeoutMs: 200, firstRetryMs: 20 },
  )
  t.teardown(() => source.stop())
  return source
}

const refused = (code: string) => Object.assign(new Error(`getaddrinfo ${code}`), { code })
const notUsed: Lookup = async () => {
  throw new Error('not to be asked')
}

discoverySuite(t, (t) => {
  let hosts: readonly string[] = []
  let fault: Fault | undefined
  let asked: PromiseWithResolvers<never> | undefined
  const lookup: Lookup = async () => {
    if (fault === 'failure') throw refused('EAI_AGAIN')
    if (fault === 'silence') {
      asked = Promise.withResolvers()
      await asked.promise
    }
    return hosts.map((address) => ({ address }))
  }
  return {
    source: begin(t, ['kas.internal:8156'], lookup),
    set: (next) => {
      hosts = next
    },
    inject: (next) => {
      fault = next
      if (next === undefined) asked?.reject(refused('EAI_AGAIN')) // the system gives up after some time
    },
    assertAtRest: () => undefined, // the source has only timers, and these would keep this process alive
  }
})

t.test('addresses are taken as they are', async (t) => {
  const source = begin(t, ['[fd00:0::1]:9000', '10.0.0.7:8156', '10.0.0.7:8156'], notUsed)
  await source.start()
  t.strictSame(source.current(), { addresses: ['10.0.0.7:8156', '[fd00::1]:9000'], stale: false, answered: true })
})

t.test('a name of this system', async (t) => {
  const source = begin(t, ['localhost:8156'], lookupBySystem)
  await source.start()
  t.match(source.current().addresses.join(), /127\.0\.0\.1:8156|\[::1\]:8156/)
})

t.test('addresses of a link alone are left out', async (t) => {
  const lookup: Lookup = async () => [{ address: 'fe80::1%eth0' }, { address: '10.0.0.7' }]
  const source = begin(t, ['kas.local:8156'], lookup)
  await source.start()
  t.strictSame(source.current(), { addresses: ['10.0.0.7:8156'], stale: false, answered: true })
})

t.test('one name of several', async (t) => {
  const known: Record<string, string> = { a: '10.0.0.1', b: '10.0.0.2' }
  const failing = new Set<string>()
  const lookup: Lookup = async (host) => {
    if (failing.has(host)) throw refused('EAI_AGAIN')
    const address = known[host]
    if (address === undefined) throw refused('ENOTFOUND')
    return [{ address }]
  }
  const source = begin(t, ['a:8156', 'b:8157', '10.0.0.9:8156'], lookup)
  await source.start()
  t.strictSame(source.current().addresses, ['10.0.0.1:8156', '10.0.0.2:8157', '10.0.0.9:8156'])

  await t.test('that fails keeps its address', async (t) => {
    failing.add('b')
    const found = await discovered(source, ({ stale }) => stale)
    t.match(found, { addresses: ['10.0.0.1:8156', '10.0.0.2:8157', '10.0.0.9:8156'], error: 'b:8157: EAI_AGAIN' })
    failing.clear()
    await discovered(source, ({ stale }) => !stale)
  })

  await t.test('that does not exist any more has none', async () => {
    delete known.b
    await discovered(source, finds('10.0.0.1:8156', '10.0.0.9:8156'))
  })
})

t.test('a look-up that hangs is not begun again', async (t) => {
  const asked = { slow: 0, quick: 0 }
  const slow = Promise.withResolvers<never>()
  const thirdRound = Promise.withResolvers<void>()
  const lookup: Lookup = (host) => {
    asked[host as keyof typeof asked]++
    if (asked.quick === 3) thirdRound.resolve()
    return host === 'slow' ? slow.promise : Promise.resolve([{ address: '10.0.0.1' }])
  }
  const source = begin(t, ['slow:8156', 'quick:8156'], lookup)
  await source.start()
  t.match(source.current(), { answered: false, error: /no answer within 200 ms/ })
  await thirdRound.promise
  t.equal(asked.slow, 1)
  slow.reject(refused('EAI_AGAIN'))
  t.match(await discovered(source, ({ answered }) => answered), { addresses: ['10.0.0.1:8156'], error: /EAI_AGAIN/ })
})

t.test('what is no list is refused, all at once', async (t) => {
  const members = ['10.0.0.7', '10.0.0.7:0', 'fd00::1:8156', 'kas-1:8156', '10.0.0:8156', ':8156', 'http://a:1']
  const expected = ['10.0.0.7', '10.0.0.7:0', 'fd00::1:8156', '10.0.0:8156', ':8156', 'http://a:1']
  try {
    begin(t, members, notUsed)
    t.fail('it was taken')
  } catch (error) {
    const { problems } = (error as { spec: { problems: string[] } }).spec
    t.strictSame(
      problems.map((problem) => /found "(.*)", allowed: host:port such as/.exec(problem)?.[1]),
      expected,
    )
    t.match(problems[0], /^static\[0\]: /)
  }
})
