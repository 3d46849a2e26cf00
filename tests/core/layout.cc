// SPDX-License-Identifier: MIT
//
// What other programs rely on: the format's layouts, and numbers that are part
// of the ABI (statistics, stop reasons, the kernel's counters are indexed by
// them). A change here is a change of the ABI.
#include "core.h"

#include <sframe/abi.h>
#include <sframe/decode.h>

#include <gtest/gtest.h>

#include <set>

namespace {

TEST(Layout, FormatStructuresHaveTheSizesOfTheFormat)
{
	EXPECT_EQ(sizeof(sframe_header), size_t{ SFRAME_HEADER_SIZE });
	EXPECT_EQ(sizeof(sframe_fde_v3), size_t{ SFRAME_FDE_V3_SIZE });
	EXPECT_EQ(sizeof(sframe_fde_attr_v3), size_t{ SFRAME_FDE_ATTR_V3_SIZE });
	EXPECT_EQ(sizeof(sframe_fde_v2), size_t{ SFRAME_FDE_V2_SIZE });
}

TEST(Layout, HeaderFieldsAreWhereTheFormatSays)
{
	EXPECT_EQ(offsetof(sframe_header, version), 2u);
	EXPECT_EQ(offsetof(sframe_header, flags), 3u);
	EXPECT_EQ(offsetof(sframe_header, abi_arch), 4u);
	EXPECT_EQ(offsetof(sframe_header, cfa_fixed_fp_offset), 5u);
	EXPECT_EQ(offsetof(sframe_header, cfa_fixed_ra_offset), 6u);
	EXPECT_EQ(offsetof(sframe_header, auxhdr_len), 7u);
	EXPECT_EQ(offsetof(sframe_header, num_fdes), 8u);
	EXPECT_EQ(offsetof(sframe_header, num_fres), 12u);
	EXPECT_EQ(offsetof(sframe_header, fre_len), 16u);
	EXPECT_EQ(offsetof(sframe_header, fdeoff), 20u);
	EXPECT_EQ(offsetof(sframe_header, freoff), 24u);
}

TEST(Layout, StatusNumbersStay)
{
	EXPECT_EQ(SFRAME_OK, 0);
	EXPECT_EQ(SFRAME_OUTERMOST, 1);
	EXPECT_EQ(SFRAME_NOT_COVERED, 2);
	EXPECT_EQ(SFRAME_CORRUPT, 3);
	EXPECT_EQ(SFRAME_UNREADABLE, 4);
	EXPECT_EQ(SFRAME_UNSUPPORTED_REG, 5);
	EXPECT_EQ(SFRAME_NO_PROGRESS, 6);
	EXPECT_EQ(SFRAME_UNSUPPORTED_ABI, 7);
	EXPECT_EQ(SFRAME_TOO_SHORT, 8);
	EXPECT_EQ(SFRAME_BAD_MAGIC, 9);
	EXPECT_EQ(SFRAME_FOREIGN_ENDIAN, 10);
	EXPECT_EQ(SFRAME_BAD_VERSION, 11);
	EXPECT_EQ(SFRAME_BAD_FLAGS, 12);
	EXPECT_EQ(SFRAME_BAD_ABI, 13);
	EXPECT_EQ(SFRAME_BAD_EXTENT, 14);
	EXPECT_EQ(SFRAME_UNSORTED, 15);
	EXPECT_EQ(SFRAME_CONCATENATED, 16);
}

TEST(Layout, EachStatusHasANameOfItsOwn)
{
	std::set<std::string> names;

	for (int status = 0; status < SFRAME_STATUS_COUNT; status++)
		names.insert(sframe_decode_status_name(status));
	EXPECT_EQ(names.size(), static_cast<size_t>(SFRAME_STATUS_COUNT));
	EXPECT_EQ(names.count("unknown"), 0u);
	EXPECT_STREQ(sframe_decode_status_name(SFRAME_STATUS_COUNT), "unknown");
	EXPECT_STREQ(sframe_decode_status_name(-1), "unknown");
}

TEST(Layout, DecoderSpeaksTheCoresLanguage)
{
	EXPECT_EQ(static_cast<int>(SFRAME_BASE_NONE), static_cast<int>(SFRAME_RULE_NONE));
	EXPECT_EQ(static_cast<int>(SFRAME_BASE_CFA), static_cast<int>(SFRAME_RULE_CFA));
	EXPECT_EQ(static_cast<int>(SFRAME_BASE_REG), static_cast<int>(SFRAME_RULE_REG));
	EXPECT_EQ(sizeof(sframe_decoded_rule), sizeof(sframe_rule));
	EXPECT_EQ(sizeof(sframe_decoded_row), sizeof(sframe_row));
}

TEST(Layout, SetupIsTheKernelsStructure)
{
	EXPECT_EQ(sizeof(sframe_setup), size_t{ SFRAME_SETUP_SIZE_VER1 });
	EXPECT_EQ(offsetof(sframe_setup, flags), size_t{ SFRAME_SETUP_SIZE_VER0 });
	EXPECT_EQ(offsetof(sframe_setup, text_start), 16u);
}

} // namespace
