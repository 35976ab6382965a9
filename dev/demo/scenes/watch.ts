import { configMaps } from '../ledger.ts'
import type { Scene } from '../stage.ts'
import { WatchReader } from '../watch-reader.ts'

const changes = 20
/** limit for the last event. ms */
const patienceMs = 10_000

export const watch: Scene = {
  name: 'watch',
  title: 'A watch through each replica, while ConfigMaps are made through the balancer',
  async play(stage) {
    const label = 'demo-scene=watch'
    const callers = stage.running.map((replica) => stage.caller(replica))
    const watches = await Promise.all(callers.map((caller) => WatchReader.open(caller, label)))
    const expected: string[] = []
    for (let i = 1; i <= changes; i++) {
      const metadata = { name: `watched-${i}`, labels: { 'demo-scene': 'watch' } }
      const body = { kind: 'ConfigMap', apiVersion: 'v1', metadata }
      const { status } = await stage.balancer.ask(configMaps, { method: 'POST', body })
      stage.check(status === 201, `ConfigMap ${i} is made`)
      expected.push(`ADDED watched-${i}`)
    }
    const madeAt = performance.now()
    const limit = AbortSignal.any([stage.signal, AbortSignal.timeout(patienceMs)])
    for (const watched of watches) {
      await watched.seen(changes, limit)
      const lateMs = Math.round(performance.now() - madeAt)
      stage.say(
        `through ${watched.name}: ${watched.events.length} events, the last at most ${lateMs} ms after it was made`,
      )
      const same = watched.events.join() === expected.join()
      stage.check(same, `the watch through ${watched.name} sees each of ${changes} changes once, in order`)
      watched.close()
    }
    const names = expected.map((event) => event.replace('ADDED ', ''))
    await Promise.all(names.map((name) => stage.balancer.ask(`${configMaps}/${name}`, { method: 'DELETE' })))
  },
}
