import { kindKey } from '../../../../kubernetes/kind.ts'
import { at, listAt, textAt } from '../../../../kubernetes/object.ts'
import type { Projector, Reference } from './projector.ts'

/** Objects that register with the API server: nodes, servers that answer for it, and bindings of roles. */

export const node: Projector = (object) => ({
  facts: [
    textAt(object, 'status.nodeInfo.kubeletVersion'),
    at(object, 'spec.unschedulable') === true ? 'cordoned' : '',
  ],
})

export const apiService: Projector = (object) => ({ references: toService('is served by', object, 'spec.service') })

export const webhookConfiguration: Projector = (object) => ({
  references: listAt(object, 'webhooks').flatMap((webhook) => toService('asks', webhook, 'clientConfig.service')),
})

function toService(relation: string, object: unknown, path: string): readonly Reference[] {
  const [namespace, name] = [textAt(object, `${path}.namespace`), textAt(object, `${path}.name`)]
  return [{ relation, kind: 'Service', namespace, name }]
}

/** Binding of a Role or of a ClusterRole. */
export const roleBinding: Projector = (object) => {
  const role = at(object, 'roleRef')
  const kind = textAt(role, 'kind')
  const namespace = kind === 'Role' ? textAt(object, 'metadata.namespace') : ''
  return {
    references: [
      { relation: 'grants', kind: kindKey(textAt(role, 'apiGroup'), kind), namespace, name: textAt(role, 'name') },
    ],
  }
}
