import type { Test } from 'tap'
import { App, type AppComponents } from '../../src/kas/app.ts'
import { parseKasConfig } from '../../src/kas/config/kas-config.ts'
import { capturedLog } from './captured-log.ts'

export interface KasAppInit extends Omit<AppComponents, 'log'> {
  readonly version?: string
  /** default: empty */
  readonly env?: NodeJS.ProcessEnv
}

export interface KasApp {
  readonly app: App
  readonly lines: readonly Record<string, unknown>[]
  /**
   * @param endpoint - name with which the server logs its start: `API`, `Agentk API`, `Kubernetes API`, `Observability`
   */
  portOf(endpoint: string): number
}

/**
 * Creates a whole kas in this process without starting it; it is cut when the test ends.
 *
 * @param configuration - the file, as YAML or as its content
 */
export function createKasApp(t: Test, configuration: string | object, init: KasAppInit = {}): KasApp {
  const { version = '18.5.0', env = {}, ...components } = init
  const { log, lines } = capturedLog()
  const configurationFile = 'kas.yaml'
  const text = typeof configuration === 'string' ? configuration : JSON.stringify(configuration)
  const { config } = parseKasConfig(configurationFile, text)
  const options = { config, configurationFile, version: { version, commit: 'test' }, env }
  const app = new App({ log, ...components }, options)
  t.teardown(() => app.stop(AbortSignal.abort()))
  const portOf = (endpoint: string) => {
    const line = lines.find(({ msg }) => msg === `${endpoint} endpoint is up`)
    return Number(String(line?.net_address).split(':').at(-1))
  }
  return { app, lines, portOf }
}

export async function startKasApp(...args: Parameters<typeof createKasApp>): Promise<KasApp> {
  const kas = createKasApp(...args)
  await kas.app.start()
  return kas
}
