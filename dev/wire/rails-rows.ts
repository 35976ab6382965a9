import { wireSection } from './row.ts'

/** GitLab and kas: what each calls of the other. */

const tracker = '`gitlab.agent.agent_tracker.rpc.AgentTracker/'
const provisioner = '`gitlab.agent.managed_resources.rpc.Provisioner/'

export const railsMethodRows = wireSection('8153: methods that GitLab calls', [
  ['8153.GetConnectedAgents', 'W 1.7', 'defined', `${tracker}GetConnectedAgents\`, by project and by agent (to 16.5)`],
  ['8153.GetConnectedAgentsByProjectIds', 'W 1.7', 'defined', `${tracker}GetConnectedAgentsByProjectIds\``],
  ['8153.GetConnectedAgentsByAgentIds', 'W 1.7', 'defined', `${tracker}GetConnectedAgentsByAgentIds\``],
  ['8153.GetConnectedAgentsByProjectIDs', 'W 1.7', 'defined', `${tracker}GetConnectedAgentsByProjectIDs\``],
  ['8153.GetConnectedAgentsByAgentIDs', 'W 1.7', 'defined', `${tracker}GetConnectedAgentsByAgentIDs\``],
  ['8153.GetConnectedAgentksByProjectIDs', 'W 1.7', 'unsure', `${tracker}GetConnectedAgentksByProjectIDs\` (18.6)`],
  ['8153.GetConnectedAgentksByAgentIDs', 'W 1.7', 'defined', `${tracker}GetConnectedAgentksByAgentIDs\` (18.6)`],
  ['8153.CountAgentsByAgentVersions', 'W 1.7', 'defined', `${tracker}CountAgentsByAgentVersions\``],
  ['8153.tracker.case', 'G 9.2 no. 16', 'defined', 'names of methods count by letter: `…IDS` is UNIMPLEMENTED'],
  ['8153.tracker.ids', 'G 10.2 no. 3', 'unsure', 'ids are field 1, packed or not'],
  ['8153.tracker.any-replica', 'W 4.1', 'defined', 'any replica answers for the agents of all'],
  [
    '8153.ListAgentConfigFiles',
    'W 1.12',
    'defined',
    '`gitlab.agent.configuration_project.rpc.ConfigurationProject/ListAgentConfigFiles`',
  ],
  ['8153.ListAgentConfigFiles.names', 'W 1.12', 'defined', 'folders whose name is a lower-case RFC 1123 label'],
  ['8153.ListAgentConfigFiles.empty', 'W 1.12', 'defined', 'no folder, no such branch: an empty list'],
  ['8153.ListAgentConfigFiles.branch', 'W 1.12', 'defined', '`default_branch` absent: HEAD'],
  [
    'error.8153.ListAgentConfigFiles',
    'W 1.12',
    'defined',
    'Gitaly’s INVALID_ARGUMENT stays that, all else is UNAVAILABLE',
  ],
  ['8153.GitPushEvent', 'W 1.11', 'defined', '`gitlab.agent.notifications.rpc.Notifications/GitPushEvent`'],
  ['8153.GitPushEvent.all', 'W 4.1', 'defined', 'every replica knows before GitLab is answered'],
  ['8153.GitPushEvent.time', 'G 9.2 no. 21', 'defined', 'it is answered within a second, far below GitLab’s deadline'],
  [
    'error.8153.GitPushEvent',
    'W 1.11',
    'defined',
    'no replica can be told: UNAVAILABLE; no event, id or path: INVALID_ARGUMENT',
  ],
  [
    '8153.GetServerInfo',
    'W 1.13',
    'defined',
    '`gitlab.agent.server_info.rpc.ServerInfo/GetServerInfo`, version and ref',
  ],
  ['8153.GetEnvironmentTemplate', 'W 1.16', 'unsure', `${provisioner}GetEnvironmentTemplate\`: UNIMPLEMENTED`],
  [
    '8153.GetDefaultEnvironmentTemplate',
    'W 1.16',
    'unsure',
    `${provisioner}GetDefaultEnvironmentTemplate\`: UNIMPLEMENTED`,
  ],
  ['8153.RenderEnvironmentTemplate', 'W 1.16', 'unsure', `${provisioner}RenderEnvironmentTemplate\`: UNIMPLEMENTED`],
  ['8153.EnsureEnvironment', 'W 1.16', 'unsure', `${provisioner}EnsureEnvironment\`: UNIMPLEMENTED`],
  ['8153.DeleteEnvironment', 'W 1.16', 'unsure', `${provisioner}DeleteEnvironment\`: UNIMPLEMENTED`],
  ['8153.CloudEvent', 'W 1.16', 'unsure', '`gitlab.agent.auto_flow.rpc.AutoFlow/CloudEvent`: UNIMPLEMENTED'],
  ['8153.StartWorkflow', 'W 1.16', 'unsure', '`gitlab.agent.auto_flow.rpc.AutoFlow/StartWorkflow`: UNIMPLEMENTED'],
  ['8153.Publish', 'W 1.16', 'unsure', '`gitlab.agent.events_platform.rpc.EventsPlatform/Publish`: UNIMPLEMENTED'],
  ['8153.Subscribe', 'W 1.16', 'unsure', '`gitlab.agent.events_platform.rpc.EventsPlatform/Subscribe`: UNIMPLEMENTED'],
  [
    '8153.agent-call',
    'W 1.0, 4.2',
    'defined',
    'calls for an agent, with `kas-hop-routing-agent-id`, reach it from any replica',
  ],
  ['8153.ruby', 'G 1.1', 'defined', 'ruby-grpc, GitLab’s own library, gets through'],
])

export const railsAuthRows = wireSection('8153: who is let in', [
  ['jwt.bearer', 'W 5.1', 'defined', '`authorization: bearer <JWT>`, the word in any case'],
  ['jwt.algorithms', 'W 5.1', 'defined', 'HS256, HS384, HS512'],
  ['jwt.issuer', 'W 5.1', 'defined', 'any issuer, or none'],
  ['jwt.audience', 'W 5.1', 'defined', '`aud` is or holds `gitlab-kas`'],
  ['jwt.times', 'W 5.1', 'defined', '`exp` and `nbf` are checked without leeway'],
  ['error.jwt', 'W 5.1', 'defined', 'anything else: UNAUTHENTICATED `JWT validation failed`'],
  ['jwt.feature', 'W 5.1', 'defined', '`kas-feature-…` keys beside it do no harm'],
  ['rails.tls', 'G 1.1', 'defined', 'TLS with a certificate that is read again when it changes'],
  ['rails.age', 'W 5.1, 2.4', 'defined', 'GOAWAY at a fifth of `max_connection_age`, calls that run have the grace'],
])

const agentInfo = 'GET `/internal/agents/agentk/agent_info`'

export const gitlabRows = wireSection('GitLab’s API: what kas calls (below `/api/v4`)', [
  ['rest.agent_info', 'W 5.3, G 2.2 no. 1', 'defined', `${agentInfo}, GitLab 18.2 and later`],
  [
    'rest.agent_info.old',
    'W 5.3, G 2.2 no. 2',
    'captured 2',
    'GET `/internal/kubernetes/agent_info`, where the new path gives 404',
  ],
  [
    'rest.agent_info.path',
    'G 9.1 no. 4',
    'defined',
    'which of the two answered is remembered, and forgotten after a 404',
  ],
  ['rest.agent_info.404', 'G 9.1 no. 5', 'defined', 'both 404: the agent is not found, the log names `gitlab.address`'],
  ['rest.agent_info.cache', 'W 5.3', 'defined', 'kept 5 min, a refusal 1 min'],
  [
    'rest.agent_info.connected',
    'G 0 no. 5',
    'defined',
    'asked every 5 min while an agent is connected, so that it stays "Connected"',
  ],
  [
    'rest.verify_project_access',
    'W 5.3, G 2.2 no. 4',
    'defined',
    'GET `/internal/kubernetes/verify_project_access?id=`, 204',
  ],
  ['rest.verify_project_access.refused', 'G 9.1 no. 11', 'defined', '401, 404: no access'],
  ['rest.verify_project_access.cache', 'W 5.3', 'defined', 'kept 5 min, no access 1 min'],
  [
    'rest.agent_configuration',
    'W 5.3, G 2.2 no. 5',
    'captured 2',
    'POST `/internal/kubernetes/agent_configuration`, `agent_id` as a string',
  ],
  [
    'rest.agent_configuration.body',
    'G 9.1 no. 10',
    'defined',
    '`agent_config` is the whole file as JSON, keys that kas does not know too',
  ],
  ['rest.agent_configuration.404', 'W 5.3', 'defined', '404: the agent is gone, no failure'],
  [
    'rest.agent_configuration.when',
    'G 9.1 no. 9',
    'defined',
    'each commit once, by one replica; nothing of what could not be read',
  ],
  [
    'rest.authorize_proxy_user',
    'W 5.3, G 2.2 no. 6',
    'captured 3',
    'POST `/internal/kubernetes/authorize_proxy_user`, 201',
  ],
  [
    'rest.authorize_proxy_user.pat',
    'W 5.3',
    'captured 3',
    '`access_type: personal_access_token`, without `csrf_token`',
  ],
  ['rest.authorize_proxy_user.cookie', 'W 5.3', 'captured 3', '`access_type: session_cookie`, with `csrf_token`'],
  ['rest.authorize_proxy_user.400', 'G 9.1 no. 7', 'defined', '400 is a bad credential too, and not kept'],
  [
    'rest.authorize_proxy_user.cache',
    'G 9.1 no. 8',
    'defined',
    'kept 60 s, a refusal 10 s, by agent, kind, credential and CSRF token',
  ],
  ['rest.allowed_agents', 'W 5.3, G 2.2 no. 9', 'captured 3', 'GET `/job/allowed_agents` with `Job-Token` alone'],
  [
    'rest.allowed_agents.cache',
    'W 5.3',
    'captured 2',
    'kept 60 s, a refusal 10 s, by the whole token (stock: by half of it)',
  ],
  [
    'rest.usage_metrics',
    'W 5.3, G 2.2 no. 7',
    'defined',
    'POST `/internal/kubernetes/usage_metrics`, each period and at the end, nothing when there is nothing',
  ],
  ['rest.usage_metrics.failure', 'W 5.3', 'defined', 'what was not taken is told again'],
  [
    'rest.agent_events',
    'W 5.3, G 2.2 no. 8',
    'defined',
    'POST `/internal/kubernetes/agent_events`; 404 before 16.8 is borne',
  ],
  [
    'rest.modules',
    'W 5.3, G 2.2 no. 11 to 15',
    'defined',
    'any method, `/internal/kubernetes/modules/<module>/<path>`, as agents ask by MakeRequest',
  ],
  ['rest.root', 'G 2', 'defined', 'a relative root of `gitlab.address` stands before every path'],
])

export const gitlabCallRows = wireSection('GitLab’s API: how kas calls', [
  [
    'rest.jwt',
    'W 5.2, G 9.1 no. 1, 2',
    'captured 2',
    '`Gitlab-Kas-Api-Request`: HS256, `iss` gitlab-kas, `aud` [gitlab], `nbf` -5 s, `exp` +30 s',
  ],
  [
    'rest.token',
    'W 5.2, G 9.1 no. 3',
    'defined',
    '`Gitlab-Agent-Api-Request` and `Gitlab-Agentk-Api-Request`: the agent’s token',
  ],
  [
    'rest.token.bearer',
    'W 5.2, G 9.1 no. 3',
    'captured 2',
    '`Authorization: Bearer` only for a GitLab that reads nothing else (before 17.2)',
  ],
  ['rest.user-agent', 'W 5.2', 'defined', '`User-Agent: gitlab-kas/<version>/<commit>`'],
  ['rest.traceparent', 'W 5.2', 'defined', '`traceparent`, `tracestate` of the call it is for, when traces are on'],
  ['rest.gzip', 'W 5.2', 'captured 2', '`Accept-Encoding: gzip`'],
  ['rest.accept', 'W 5.2', 'defined', '`Accept: application/json` where a body is expected, and only there'],
  [
    'rest.repeat',
    'W 5.2',
    'defined',
    'up to 4 repeats after 429 and 5xx but 501; none of agent_info, verify_project_access, usage_metrics',
  ],
  ['rest.limit', 'W 5.2', 'defined', '`gitlab.api_rate_limit` bounds calls per second, also after GitLab was away'],
  ['rest.connections', 'W 5.2', 'defined', 'at most 50 connections'],
  ['rest.redirects', 'W 5.2', 'defined', 'redirects are not followed'],
  [
    'rest.unknown-keys',
    'G 9.1 no. 14',
    'defined',
    'what GitLab says beside what kas needs is no fault; what is missing is',
  ],
  ['rest.unknown-access', 'G 9.1 no. 13', 'defined', 'an unknown `access_as` is refused, never taken for the agent'],
  [
    'rest.kas-jwt-refused',
    'W 5.2',
    'defined',
    '401 `KAS JWT authentication invalid` is no fault of the token: the log names the secret file',
  ],
])
