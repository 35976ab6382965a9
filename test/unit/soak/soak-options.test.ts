import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { attackNames, soakOptions } from '../../soak/soak-options.ts'

const read = (line: string) => soakOptions(line.split(' ').filter((word) => word !== ''))

t.test('each scene has its own options', async (t) => {
  t.same(read('watch'), { scene: 'watch', scheme: 'wss', minutes: 6 })
  t.same(read('watch --minutes 0.1'), { scene: 'watch', scheme: 'wss', minutes: 0.1 })
  t.same(read('--execs 5 crowd --scheme=grpcs'), { scene: 'crowd', scheme: 'grpcs', watches: 200, execs: 5 })
  t.same(read('burst'), { scene: 'burst', scheme: 'wss', calls: 500 })
  t.same(read('readers --pairs 2'), {
    scene: 'readers',
    scheme: 'wss',
    readers: 100,
    pairs: 2,
    calls: 300,
    milliseconds: 0,
  })
  t.same(read('exactly-once --times 4'), { scene: 'exactly-once', scheme: 'wss', times: 4, seed: 1 })
  t.same(read('fronts --minutes 1'), { scene: 'fronts', scheme: 'wss', minutes: 1 })
  t.same(read('hostile'), { scene: 'hostile', scheme: 'wss', seconds: 60 })
  t.match(read('hostile --installed'), { scene: 'hostile', installed: true })
  t.same(read('hostile --seconds 5 --attack gzip'), { scene: 'hostile', scheme: 'wss', seconds: 5, attack: 'gzip' })
  const memory = { scene: 'memory', scheme: 'wss', seconds: 30, mebibytes: 512 }
  t.same(read('memory --mebibytes 512 --part idle-callers'), { ...memory, part: 'idle-callers' })
  const views = { scene: 'views', scheme: 'wss', times: 10, views: 50, pods: 20_000, runs: 100 }
  t.same(read('views'), views)
  t.same(read('views --part records --pods 100000'), { ...views, part: 'records', pods: 100_000 })
  const rolling = { scene: 'rolling', scheme: 'wss', calls: 100, watches: 50, execs: 20, grace: 30 }
  t.same(read('rolling --part streams'), { ...rolling, part: 'streams' })
  const watches = { scene: 'watches', scheme: 'wss', kills: 2, freezes: 5, pods: 3, restarts: 3, entries: 3, rate: 50 }
  t.same(read('watches --kills 2'), watches)
  const gitops = {
    scene: 'gitops',
    scheme: 'wss',
    pushes: 200,
    kills: 20,
    freezes: 10,
    minutes: 30,
    polls: 20,
    hooks: 15,
    seed: 1,
  }
  t.same(read('gitops --part faults --minutes 0.5'), { ...gitops, part: 'faults', minutes: 0.5 })
  t.same(read('--help'), { help: true })
})

for (const [line, message] of [
  [
    '',
    'a scene is missing: one of watch, crowd, burst, readers, rolling, exactly-once, watches, namespaces, placement, fronts, cutting-front, withdrawn, ended, hostile, memory, views, unlisted, rollouts, clients, charts, renderings, gitops, repositories',
  ],
  [
    'toString',
    'no scene toString: one of watch, crowd, burst, readers, rolling, exactly-once, watches, namespaces, placement, fronts, cutting-front, withdrawn, ended, hostile, memory, views, unlisted, rollouts, clients, charts, renderings, gitops, repositories',
  ],
  ['watch crowd', 'crowd: one scene at a time, and nothing else'],
  ['readers --readers x', '--readers x: a whole number from 1 to 10000'],
  ['readers --readers 0', '--readers 0: a whole number from 1 to 10000'],
  ['readers --pairs 1.5', '--pairs 1.5: a whole number from 1 to 10000'],
  ['crowd --watches 10001', '--watches 10001: a whole number from 1 to 10000'],
  ['crowd --execs=', '--execs : a whole number from 1 to 10000'],
  ['burst --calls=-1', '--calls -1: a whole number from 1 to 10000'],
  ['watch --minutes 0', '--minutes 0: a number above 0, at most 1440'],
  ['watch --minutes Infinity', '--minutes Infinity: a number above 0, at most 1440'],
  ['watch --calls 3', '--calls: watch has --minutes, --scheme'],
  ['exactly-once --scheme wss', '--scheme: exactly-once has --times, --seed'],
  ['namespaces --scheme wss', '--scheme: namespaces has no options'],
  ['hostile --scheme wss', '--scheme: hostile has --seconds, --attack, --installed'],
  ['hostile --attack nukes', `--attack nukes: one of ${attackNames.join(', ')}`],
  ['views --pods 100001', '--pods 100001: a whole number from 1 to 100000'],
  ['views --part all', '--part all: one of faults, rights, records, rollouts'],
  ['memory --part gzip', '--part gzip: one of fleet-of-tenant, fleet-of-projects, idle-callers'],
  ['rolling --part logs', '--part logs: one of calls, streams'],
  ['gitops --part rights', '--part rights: one of kills, frozen, faults, calls, lies, polls, hooks'],
  ['crowd --installed', '--installed: crowd has --watches, --execs, --scheme'],
  ['crowd --attack gzip', '--attack: crowd has --watches, --execs, --scheme'],
  ['burst --scheme ws', '--scheme ws: one of wss, grpcs'],
] as const) {
  t.test(`${line || 'no argument'} is refused`, async (t) => {
    t.throws(() => read(line), { message })
  })
}

t.test('an unknown option is refused, by name', async (t) => {
  t.throws(() => read('watch --hours 3'), /--hours/)
})

t.test('the program says so at once, with exit status 2', async (t) => {
  const main = join(import.meta.dirname, '../../soak/soak.ts')
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, 'readers', '--readers', 'x'], {
    encoding: 'utf8',
    timeout: 20_000,
  })
  t.equal(status, 2)
  t.match(stderr, /^soak: --readers x: a whole number from 1 to 10000\n\nnpm run soak -- SCENE/)
  t.equal(stdout, '', 'nothing has started')
})
