// Descriptors made at run time from `tables.json`: the protocol's field tables,
// one message a line, `[number, name, type, label, oneof]`. Nothing here comes
// from ibeam's own .proto files, so a field that ibeam has wrong is an unknown
// or misread field here.

import { create, createFileRegistry } from "@bufbuild/protobuf";
import {
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
  FileDescriptorSetSchema,
} from "@bufbuild/protobuf/wkt";
import { readFileSync } from "node:fs";

const SCALARS = {
  string: Type.STRING,
  bytes: Type.BYTES,
  int32: Type.INT32,
  uint32: Type.UINT32,
  int64: Type.INT64,
  uint64: Type.UINT64,
  bool: Type.BOOL,
  double: Type.DOUBLE,
  float: Type.FLOAT,
};

const agentTables = JSON.parse(readFileSync(new URL("./tables.json", import.meta.url), "utf8"));

// The few messages of the other package that this server reads or writes.
const aiserverTables = {
  AvailableModelsRequest: [
    [1, "is_nightly", "bool"],
    [2, "include_long_context_models", "bool"],
    [3, "exclude_max_named_models", "bool"],
    [4, "additional_model_names", "string", "rep"],
    [5, "use_model_parameters", "bool"],
    [6, "include_hidden_models", "bool"],
    [7, "do_not_use_markdown", "bool"],
    [8, "variants_will_be_shown_in_exploded_list", "bool"],
    [9, "for_automations", "bool"],
    [10, "scope", "int32"],
    [11, "use_react_model_picker", "bool"],
    [12, "use_cloud_agent_effort_modes", "bool"],
    [13, "admin_settings_group_public_id", "string"],
    [14, "byok_enabled", "bool"],
    [15, "use_parameterized_automations_models", "bool"],
  ],
  AvailableModel: [
    [1, "name", "string"],
    [2, "default_on", "bool"],
    [5, "supports_agent", "bool"],
    [9, "supports_thinking", "bool"],
    [10, "supports_images", "bool"],
    [14, "supports_max_mode", "bool"],
    [15, "context_token_limit", "int32"],
    [16, "context_token_limit_for_max_mode", "int32"],
    [17, "client_display_name", "string"],
    [18, "server_model_name", "string"],
    [19, "supports_non_max_mode", "bool"],
    [24, "inputbox_short_model_name", "string"],
    [37, "id_aliases", "string", "rep"],
  ],
  AvailableModelsResponse: [
    [1, "model_names", "string", "rep"],
    [2, "models", "AvailableModel", "rep"],
  ],
  CustomErrorDetails: [
    [1, "title", "string"],
    [2, "detail", "string"],
    [4, "is_retryable", "bool"],
    [7, "additional_info", "string,string", "map"],
  ],
  ErrorDetails: [
    [1, "error", "int32"],
    [2, "details", "CustomErrorDetails"],
    [3, "is_expected", "bool"],
  ],
  GetServerConfigRequest: [],
  GetServerConfigResponse: [
    [6, "config_version", "string"],
    [7, "http2_config", "int32"],
  ],
};
agentTables.GetDefaultModelForCliRequest ??= [];
agentTables.GetServerConfigRequest ??= [];

function camel(name) {
  return name
    .split("_")
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join("");
}

function plain(pkg, number, name, type) {
  const scalar = SCALARS[type];
  return {
    name,
    number,
    label: Label.OPTIONAL,
    type: scalar ?? Type.MESSAGE,
    ...(scalar ? {} : { typeName: `.${pkg}.${type}` }),
  };
}

function message(pkg, name, fields) {
  const oneofs = [];
  const nestedType = [];
  const field = fields.map(([number, fieldName, type, label = "", oneof]) => {
    if (label === "map") {
      const [key, value] = type.split(",");
      const entry = `${camel(fieldName)}Entry`;
      nestedType.push({
        name: entry,
        field: [plain(pkg, 1, "key", key), plain(pkg, 2, "value", value)],
        options: { mapEntry: true },
      });
      return {
        name: fieldName,
        number,
        label: Label.REPEATED,
        type: Type.MESSAGE,
        typeName: `.${pkg}.${name}.${entry}`,
      };
    }
    const made = plain(pkg, number, fieldName, type);
    if (label === "rep") made.label = Label.REPEATED;
    if (oneof) {
      if (!oneofs.includes(oneof)) oneofs.push(oneof);
      made.oneofIndex = oneofs.indexOf(oneof);
    }
    return made;
  });
  return { name, field, nestedType, oneofDecl: oneofs.map((oneof) => ({ name: oneof })) };
}

function method(pkg, name, input, output, bidi = false) {
  return {
    name,
    inputType: `.${pkg}.${input}`,
    outputType: `.${pkg}.${output}`,
    clientStreaming: bidi,
    serverStreaming: bidi,
  };
}

// proto2, because there every field has presence: what is absent on the wire is
// absent here, and what is set here is written.
const files = create(FileDescriptorSetSchema, {
  file: [
    {
      name: "agent.proto",
      package: "agent.v1",
      syntax: "proto2",
      messageType: Object.entries(agentTables).map(([name, fields]) => message("agent.v1", name, fields)),
      service: [
        {
          name: "AgentService",
          method: [
            method("agent.v1", "Run", "AgentClientMessage", "AgentServerMessage", true),
            method("agent.v1", "GetUsableModels", "GetUsableModelsRequest", "GetUsableModelsResponse"),
            method("agent.v1", "GetDefaultModelForCli", "GetDefaultModelForCliRequest", "GetDefaultModelForCliResponse"),
            method("agent.v1", "GetServerConfig", "GetServerConfigRequest", "GetServerConfigResponse"),
          ],
        },
      ],
    },
    {
      name: "aiserver.proto",
      package: "aiserver.v1",
      syntax: "proto2",
      messageType: Object.entries(aiserverTables).map(([name, fields]) => message("aiserver.v1", name, fields)),
      service: [
        { name: "AiService", method: [method("aiserver.v1", "AvailableModels", "AvailableModelsRequest", "AvailableModelsResponse")] },
        {
          name: "ServerConfigService",
          method: [method("aiserver.v1", "GetServerConfig", "GetServerConfigRequest", "GetServerConfigResponse")],
        },
      ],
    },
  ],
});

const registry = createFileRegistry(files);

/** The descriptor of a message of `agent.v1`, or of the full name given. */
export function schema(name) {
  const found = registry.getMessage(name.includes(".") ? name : `agent.v1.${name}`);
  if (!found) throw new Error(`no table for ${name}`);
  return found;
}

export function service(name) {
  const found = registry.getService(name);
  if (!found) throw new Error(`no service ${name}`);
  return found;
}
