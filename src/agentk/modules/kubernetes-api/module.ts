import { kubernetesApiMethod } from '../../../proto/http/http-over-grpc.ts'
import type { AgentkHost, AgentkModule } from '../../module.ts'
import { KubernetesApi } from './kubernetes-api.ts'

/** Requests of kas to the cluster's API server. */
export function createKubernetesApi({ api, tracer, self }: Pick<AgentkHost, 'api' | 'tracer' | 'self'>): AgentkModule {
  const { forward } = new KubernetesApi({ api, tracer }, { product: self.product })
  return { methods: new Map([[kubernetesApiMethod, forward]]) }
}
