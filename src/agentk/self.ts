import { create } from '@bufbuild/protobuf'
import type { Metadata } from '../call/call.ts'
import { productName, type Version } from '../lib/version.ts'
import { AgentMetaSchema } from '../proto/gen/entity_pb.ts'
import type { Config } from './config/config.ts'
import type { AgentkHost } from './module.ts'

/** Identity of this agentk at kas. */

/** Includes the headers of `--kas-header`, unless an upgrade carries them (doc/reference/tunnel-protocol.md 2.3). */
export function callMetadata({ kas, token }: Config): Metadata {
  const metadata: Record<string, string[]> = {}
  if (!kas.address.webSocket) {
    for (const [name, value] of kas.headers) {
      const key = name.toLowerCase()
      metadata[key] = [...(metadata[key] ?? []), value]
    }
  }
  metadata.authorization = [`Bearer ${token()}`]
  return metadata
}

export function selfOf({ pod }: Config, version: Version): AgentkHost['self'] {
  const meta = create(AgentMetaSchema, {
    version: `v${version.version}`,
    commitId: version.commit,
    podNamespace: pod.namespace,
    podName: pod.name,
  })
  return { meta, product: productName('gitlab-agent', version) }
}
