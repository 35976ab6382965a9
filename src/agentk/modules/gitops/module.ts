import { Counter } from 'prom-client'
import type { AgentkHost, AgentkModule } from '../../module.ts'
import { Gitops } from './gitops.ts'
import { Renderer } from './render/renderer.ts'
import { readBlock } from './source-options.ts'

type Host = Pick<AgentkHost, 'api' | 'kas' | 'configuration' | 'self' | 'clock' | 'random' | 'register' | 'log'>

export interface GitopsModuleOptions {
  /** folders of programs that render, as PATH has them */
  readonly path: string
}

/** Brings the manifests of projects to the cluster (doc/gitops.md). */
export function createGitops(host: Host, { path }: GitopsModuleOptions): AgentkModule {
  const { api, kas, configuration, self, clock, random, register } = host
  const calls = new Counter({
    name: 'agentk_gitops_api_calls_total',
    help: 'Calls to the API server that GitOps has made',
    labelNames: ['lane'],
    registers: [register],
  })
  const block = configuration.block('gitops', readBlock)
  const onCall = (lane: string) => calls.inc({ lane })
  const log = host.log('gitops')
  const renderer = new Renderer({ path }, clock)
  const components = { api, kas, configuration, block, onCall, renderer, log, clock, random }
  return { lead: new Gitops(components, { namespace: self.meta.podNamespace }).lead }
}
