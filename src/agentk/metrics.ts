import { Gauge, Registry } from 'prom-client'
import type { Version } from '../lib/version.ts'

/** What the metrics are read from, at each scrape: nothing is counted twice, and calls pay nothing. */
export interface MetricSources {
  readonly tunnels: () => { idle: number; active: number; served: number }
  readonly connected: () => boolean
  readonly leads: () => boolean
}

/** All metrics of agentk. */
export function createMetrics(sources: MetricSources, { version, commit }: Version): Registry {
  const register = new Registry()
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers: [register],
      collect() {
        this.set(read())
      },
    })
  const build = new Gauge({
    name: 'gitlab_build_info',
    help: 'What runs: always 1',
    labelNames: ['version', 'built', 'commit'] as const,
    registers: [register],
  })
  build.set({ version: `v${version}`, built: 'unknown', commit }, 1)
  gauge('agentk_tunnels_idle', 'Tunnels that wait for a call', () => sources.tunnels().idle)
  gauge('agentk_tunnels_active', 'Tunnels that carry a call', () => sources.tunnels().active)
  gauge('agentk_calls_total', 'Calls that kas has sent', () => sources.tunnels().served)
  gauge('agentk_kas_connected', '1 while there is a connection to kas', () => Number(sources.connected()))
  gauge('agentk_leader', '1 while this pod leads', () => Number(sources.leads()))
  const cpuSeconds = () => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  }
  gauge('process_cpu_seconds_total', 'CPU time', cpuSeconds)
  gauge('process_resident_memory_bytes', 'Memory', () => process.memoryUsage.rss())
  const startSeconds = Date.now() / 1000 - process.uptime()
  gauge('process_start_time_seconds', 'Start of the process, in seconds since 1970', () => startSeconds)
  return register
}
